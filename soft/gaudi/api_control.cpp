// SPDX-License-Identifier: BSD-3-Clause
// Exported functions: the notifier, debug mode, and the raw information call.
#include "call.h"
#include "information.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

using namespace softgaudi;

namespace {

/// The kernel's layout of the identity, which differs from the library's.
struct RawHwIp {
    uint64_t sram_base_address, dram_base_address, dram_size;
    uint32_t sram_size, num_of_events, device_id, module_id, decoder_enabled_mask;
    uint16_t first_available_interrupt_id, server_type;
    uint32_t cpld_version, pll[4];
    uint8_t tpc_enabled_mask, dram_enabled, security_enabled, mme_master_slave_mode;
    uint8_t cpucp_version[HL_INFO_VERSION_MAX_LEN];
    uint8_t card_name[HL_INFO_CARD_NAME_MAX_LEN];
    uint64_t tpc_enabled_mask_ext, dram_page_size;
    uint32_t edma_enabled_mask;
    uint16_t number_of_user_interrupts;
    uint8_t reserved1[2];
    uint64_t reserved2;
    uint64_t default_page_size;
    uint8_t reserved3[21];
    uint8_t revision_id;
    uint16_t tpc_interrupt_id;
    uint32_t rotator_enabled_mask, reserved4;
    uint64_t engine_core_interrupt_reg_addr, reserved_dram_size;
};
static_assert(sizeof(RawHwIp) == 304 && offsetof(RawHwIp, module_id) == 36 && offsetof(RawHwIp, cpld_version) == 48 &&
              offsetof(RawHwIp, cpucp_version) == 72 && offsetof(RawHwIp, card_name) == 200 &&
              offsetof(RawHwIp, edma_enabled_mask) == 232 && offsetof(RawHwIp, default_page_size) == 248 &&
              offsetof(RawHwIp, revision_id) == 277 && offsetof(RawHwIp, tpc_interrupt_id) == 278 &&
              offsetof(RawHwIp, reserved_dram_size) == 296);

RawHwIp raw_description(const Card &card) {
    const hlthunk_hw_ip_info known = describe(card);
    RawHwIp raw{};
    raw.sram_base_address = known.sram_base_address;
    raw.dram_base_address = known.dram_base_address;
    raw.dram_size = known.dram_size;
    raw.sram_size = known.sram_size;
    raw.num_of_events = known.num_of_events;
    raw.device_id = known.device_id;
    raw.module_id = known.module_id;
    raw.decoder_enabled_mask = known.decoder_enabled_mask;
    raw.first_available_interrupt_id = known.first_available_interrupt_id;
    raw.server_type = known.server_type;
    raw.cpld_version = known.cpld_version;
    raw.tpc_enabled_mask = static_cast<uint8_t>(known.tpc_enabled_mask);
    raw.dram_enabled = known.dram_enabled;
    raw.mme_master_slave_mode = known.mme_master_slave_mode;
    std::memcpy(raw.cpucp_version, known.cpucp_version, sizeof raw.cpucp_version);
    std::memcpy(raw.card_name, known.card_name, sizeof raw.card_name);
    raw.tpc_enabled_mask_ext = known.tpc_enabled_mask_ext;
    raw.dram_page_size = known.dram_page_size;
    raw.edma_enabled_mask = known.edma_enabled_mask;
    raw.number_of_user_interrupts = known.number_of_user_interrupts;
    raw.default_page_size = known.device_mem_alloc_default_page_size;
    raw.revision_id = known.revision_id;
    raw.rotator_enabled_mask = known.rotator_enabled_mask;
    raw.reserved_dram_size = known.reserved_dram_size;
    return raw;
}

// Operations without a name in the library's header.
enum : uint32_t {
    kReplacedRows = 21,
    kPendingRows = 22,
    kLastOpen = 23,
    kLastTimeout = 24,
    kLastRazwi = 25,
    kLastUndefinedOpcode = 31,
    kLastPageFault = 33,
};

bool answered_in_reset(uint32_t op) {
    switch (op) {
    case HL_INFO_CLK_THROTTLE_REASON:
    case kLastOpen:
    case kLastTimeout:
    case kLastRazwi:
    case kLastUndefinedOpcode:
    case kLastPageFault:
    case HL_INFO_HW_IP_INFO:
    case HL_INFO_DRAM_USAGE:
    case HL_INFO_DEVICE_STATUS:
    case HL_INFO_RESET_COUNT:
    case HL_INFO_CS_COUNTERS:
    case HL_INFO_SYNC_MANAGER:
    case HL_INFO_OPEN_STATS:
    case HL_INFO_DEV_MEM_ALLOC_PAGE_SIZES:
    case HL_INFO_HW_EVENTS:
    case HL_INFO_HW_EVENTS_AGGREGATE:
    case HL_INFO_GET_EVENTS:
        return true;
    default:
        return false;
    }
}

} // namespace

SOFTGAUDI_API int hlthunk_get_info(int fd, hl_info_args *args) {
    if (!args)
        return fail(EINVAL);
    const Call call("get_info", fd, answered_in_reset(args->op) ? Needs::anything : Needs::working_card);
    if (!call)
        return fail(call.error());
    if (args->return_pointer == 0 || args->return_size == 0 || args->pad != 0)
        return fail(EINVAL);
    Card &card = call.card();
    // The kernel copies what fits, so old and new layouts work with one another.
    const auto give = [&](const auto &value) {
        std::memcpy(reinterpret_cast<void *>(args->return_pointer), &value,
                    std::min<size_t>(args->return_size, sizeof value));
        return 0;
    };
    const CardLock lock(card);
    switch (args->op) {
    case HL_INFO_HW_IP_INFO:
        return give(raw_description(card));
    case HL_INFO_HW_EVENTS:
    case HL_INFO_HW_EVENTS_AGGREGATE:
        return give(card.state().hw_events);
    case HL_INFO_DRAM_USAGE:
        return give(dram_usage(card, call.control()));
    case HL_INFO_HW_IDLE: {
        const hlthunk_engines_idle_info idle = engines_idle(card);
        struct {
            uint32_t is_idle, mask;
            uint64_t mask_ext[4];
        } raw{idle.is_idle,
              static_cast<uint32_t>(idle.mask[0]),
              {idle.mask[0], idle.mask[1], idle.mask[2], idle.mask[3]}};
        return give(raw);
    }
    case HL_INFO_DEVICE_STATUS:
        return give(std::array<uint32_t, 2>{static_cast<uint32_t>(card.status()), 0});
    case HL_INFO_DEVICE_UTILIZATION:
        return give(std::array<uint32_t, 2>{utilization_percent(card), 0});
    case HL_INFO_CLK_RATE:
        return give(std::array<uint32_t, 2>{clock_mhz(card), kMaxClockMhz});
    case HL_INFO_RESET_COUNT:
        return give(std::array<uint32_t, 2>{card.state().hard_resets, 0});
    case HL_INFO_TIME_SYNC: {
        const hlthunk_time_sync_info now = time_sync(card);
        return give(std::array<uint64_t, 3>{now.device_time, now.host_time, now.tsc_time});
    }
    case HL_INFO_CS_COUNTERS:
        return give(card.context().cs_counters);
    case HL_INFO_PCI_COUNTERS:
        return give(pci_counters(card));
    case HL_INFO_SYNC_MANAGER:
        return args->dcore_id < 8 ? give(sync_manager(args->dcore_id)) : fail(EINVAL);
    case HL_INFO_CLK_THROTTLE_REASON:
        return give(hlthunk_clk_throttle_info{});
    case HL_INFO_PLL_FREQUENCY:
        return args->pll_index < kPlls ? give(pll_frequency(args->pll_index)) : fail(EINVAL);
    case HL_INFO_TOTAL_ENERGY:
        return give(energy_mj(card));
    case HL_INFO_POWER:
        return give(power_mw(card));
    case HL_INFO_OPEN_STATS:
        return give(open_stats(card));
    case HL_INFO_DEV_MEM_ALLOC_PAGE_SIZES:
        return give(card.model().page_sizes);
    case kReplacedRows:
        return give(hlthunk_dram_replaced_rows_info{});
    case kPendingRows:
        return give(uint32_t{0});
    case kLastOpen:
        return give(card.state().records.open);
    case kLastTimeout:
        return give(card.state().records.cs_timeout);
    case kLastRazwi:
        return give(card.state().records.razwi);
    case kLastUndefinedOpcode:
        return give(card.state().records.undefined_opcode);
    case kLastPageFault: {
        const Records &records = card.state().records;
        struct {
            int64_t timestamp;
            uint64_t address;
            uint16_t engine, pad[3];
        } raw{records.page_fault.timestamp, records.page_fault.addr, records.page_fault.engine_id, {}};
        return records.page_fault_valid ? give(raw) : 0;
    }
    case HL_INFO_GET_EVENTS: {
        if (call.control())
            return fail(EOPNOTSUPP);
        if (args->return_size < sizeof(uint64_t))
            return fail(EINVAL);
        const uint64_t events = card.context().events;
        card.context().events = 0;
        return give(events);
    }
    default:
        return fail(EINVAL);
    }
}

SOFTGAUDI_API int hlthunk_notifier_create(int fd) {
    const Call call("notifier_create", fd, Needs::anything);
    if (!call)
        return fail(call.error());
    if (call.control())
        return fail(EOPNOTSUPP);
    const CardLock lock(call.card());
    if (const int error = call.card().refusal())
        return fail(error);
    return result(call.card().create_notifier());
}

SOFTGAUDI_API int hlthunk_notifier_release(int fd, int handle) {
    const Call call("notifier_release", fd, Needs::descriptor);
    if (!call)
        return fail(call.error());
    if (call.control())
        return fail(EOPNOTSUPP);
    const CardLock lock(call.card());
    return result(call.card().release_notifier(handle));
}

SOFTGAUDI_API int hlthunk_notifier_recv(int fd, int handle, uint64_t *notifier_events, uint64_t *notifier_cnt,
                                        uint32_t /*flags*/, uint32_t timeout) {
    const Call call("notifier_recv", fd, Needs::descriptor);
    if (!notifier_events || !notifier_cnt)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    if (call.control())
        return fail(EOPNOTSUPP);
    pollfd ready{handle, POLLIN, 0};
    int count = 0;
    do
        count = poll(&ready, 1, static_cast<int>(timeout));
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return fail(errno);
    if (count == 0) {
        *notifier_cnt = 0;
        return 0;
    }
    if (read(handle, notifier_cnt, sizeof *notifier_cnt) != sizeof *notifier_cnt)
        return fail(errno);
    const CardLock lock(call.card());
    *notifier_events = call.card().context().events;
    call.card().context().events = 0;
    return 0;
}

SOFTGAUDI_API int hlthunk_debug(int fd, hl_debug_args *debug) {
    const Call call("debug", fd, Needs::compute);
    if (!debug)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    bool &mode = call.card().context().debug_mode;
    if (debug->op == HL_DEBUG_OP_SET_MODE) {
        const bool wanted = debug->enable != 0;
        if (wanted == mode)
            return fail(EFAULT);
        mode = wanted;
        return 0;
    }
    if (debug->op > HL_DEBUG_OP_SET_MODE)
        return fail(EINVAL);
    return mode ? not_modelled("debug", EINVAL) : fail(EFAULT); // the trace units need debug mode, and are not modelled
}
