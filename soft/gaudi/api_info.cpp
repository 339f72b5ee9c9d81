// SPDX-License-Identifier: BSD-3-Clause
// Exported functions: information.
#include "call.h"
#include "information.h"
#include "os/format.h"

#include <algorithm>
#include <cstring>

using namespace softgaudi;

namespace {

/// Fills `*out` from the locked card.
template <class Out, class Fill>
int answer(const Call &call, Out *out, Fill fill) {
    if (!out)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    *out = fill(call.card());
    return 0;
}

constexpr uint32_t kDcores = 8;

} // namespace

SOFTGAUDI_API int hlthunk_get_hw_ip_info(int fd, hlthunk_hw_ip_info *info) {
    return answer(Call("get_hw_ip_info", fd, Needs::anything), info, [](Card &card) { return describe(card); });
}

SOFTGAUDI_API int hlthunk_get_device_status_info(int fd) {
    const Call call("get_device_status_info", fd, Needs::anything);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    return call.card().status();
}

SOFTGAUDI_API int hlthunk_get_dram_usage(int fd, hlthunk_dram_usage_info *info) {
    const Call call("get_dram_usage", fd, Needs::anything);
    return answer(call, info, [&](Card &card) { return dram_usage(card, call.control()); });
}

SOFTGAUDI_API bool hlthunk_is_device_idle(int fd) {
    const Call call("is_device_idle", fd, Needs::working_card);
    if (!call)
        return false;
    const CardLock lock(call.card());
    return engines_idle(call.card()).is_idle != 0;
}

SOFTGAUDI_API int hlthunk_get_busy_engines_mask(int fd, hlthunk_engines_idle_info *info) {
    return answer(Call("get_busy_engines_mask", fd, Needs::working_card), info, engines_idle);
}

SOFTGAUDI_API int hlthunk_get_open_stats(int fd, hlthunk_open_stats_info *info) {
    return answer(Call("get_open_stats", fd, Needs::anything), info, open_stats);
}

SOFTGAUDI_API int hlthunk_get_hw_asic_status(int fd, hlthunk_hw_asic_status *info) {
    return answer(Call("get_hw_asic_status", fd, Needs::anything), info, [](Card &card) {
        card.assert_locked();
        hlthunk_hw_asic_status status{};
        status.open_stats = open_stats(card);
        status.power.power = power_mw(card);
        status.status = card.status();
        status.timestamp_sec = static_cast<uint64_t>(realtime_ns()) / 1'000'000'000;
        status.valid = 1;
        return status;
    });
}

SOFTGAUDI_API int hlthunk_get_clk_rate(int fd, uint32_t *cur_clk_mhz, uint32_t *max_clk_mhz) {
    const Call call("get_clk_rate", fd, Needs::working_card);
    if (!max_clk_mhz)
        return fail(EINVAL);
    const int error = answer(call, cur_clk_mhz, clock_mhz);
    if (error == 0)
        *max_clk_mhz = kMaxClockMhz;
    return error;
}

SOFTGAUDI_API int hlthunk_get_clk_throttle_info(int fd, hlthunk_clk_throttle_info *info) {
    return answer(Call("get_clk_throttle_info", fd, Needs::anything), info,
                  [](Card &) { return hlthunk_clk_throttle_info{}; });
}

SOFTGAUDI_API int hlthunk_get_pll_frequency(int fd, uint32_t index, hlthunk_pll_frequency_info *info) {
    const Call call("get_pll_frequency", fd, Needs::working_card);
    if (index >= kPlls)
        return fail(EINVAL);
    return answer(call, info, [&](Card &) { return pll_frequency(index); });
}

SOFTGAUDI_API int hlthunk_get_device_utilization(int fd, uint32_t /*period_ms*/, uint32_t *rate) {
    return answer(Call("get_device_utilization", fd, Needs::working_card), rate, utilization_percent);
}

SOFTGAUDI_API int hlthunk_get_hw_events_arr(int fd, bool aggregate, uint32_t size, uint32_t *events) {
    (void)aggregate; // cards have one context at a time, so its count is the card's
    const Call call("get_hw_events_arr", fd, Needs::anything);
    if (!events || size == 0)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    const auto &counts = call.card().state().hw_events;
    std::memset(events, 0, size);
    std::memcpy(events, counts.data(), std::min<size_t>(size, sizeof counts));
    return 0;
}

SOFTGAUDI_API int hlthunk_get_reset_count_info(int fd, hlthunk_reset_count_info *info) {
    return answer(Call("get_reset_count_info", fd, Needs::anything), info, [](Card &card) {
        return hlthunk_reset_count_info{card.state().hard_resets, 0};
    });
}

SOFTGAUDI_API int hlthunk_get_time_sync_info(int fd, hlthunk_time_sync_info *info) {
    // Programs built with the older header own 16 bytes, so the third field is never written.
    const Call call("get_time_sync_info", fd, Needs::working_card);
    if (!info)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const hlthunk_time_sync_info now = time_sync(call.card());
    info->device_time = now.device_time;
    info->host_time = now.host_time;
    return 0;
}

SOFTGAUDI_API int hlthunk_get_sync_manager_info(int fd, int dcore_id, hlthunk_sync_manager_info *info) {
    const Call call("get_sync_manager_info", fd, Needs::anything);
    if (dcore_id < 0 || static_cast<uint32_t>(dcore_id) >= kDcores)
        return fail(EINVAL);
    return answer(call, info, [&](Card &) { return sync_manager(static_cast<uint32_t>(dcore_id)); });
}

SOFTGAUDI_API int hlthunk_get_cs_counters_info(int fd, hl_info_cs_counters *info) {
    return answer(Call("get_cs_counters_info", fd, Needs::anything), info,
                  [](Card &card) { return card.context().cs_counters; });
}

SOFTGAUDI_API int hlthunk_get_pci_counters_info(int fd, hlthunk_pci_counters_info *info) {
    return answer(Call("get_pci_counters_info", fd, Needs::working_card), info, pci_counters);
}

SOFTGAUDI_API int hlthunk_get_total_energy_consumption_info(int fd, hlthunk_energy_info *info) {
    return answer(Call("get_total_energy_consumption_info", fd, Needs::working_card), info,
                  [](Card &card) { return hlthunk_energy_info{energy_mj(card)}; });
}

SOFTGAUDI_API int hlthunk_get_power_info(int fd, hlthunk_power_info *info) {
    return answer(Call("get_power_info", fd, Needs::working_card), info,
                  [](Card &card) { return hlthunk_power_info{power_mw(card)}; });
}

SOFTGAUDI_API int hlthunk_get_dev_memalloc_page_orders(int fd, uint64_t *page_order_bitmask) {
    return answer(Call("get_dev_memalloc_page_orders", fd, Needs::anything), page_order_bitmask,
                  [](Card &card) { return card.model().page_sizes; });
}

SOFTGAUDI_API int hlthunk_get_dram_replaced_rows_info(int fd, hlthunk_dram_replaced_rows_info *info) {
    return answer(Call("get_dram_replaced_rows_info", fd, Needs::working_card), info,
                  [](Card &) { return hlthunk_dram_replaced_rows_info{}; }); // modelled memory has no worn rows
}

SOFTGAUDI_API int hlthunk_get_dram_pending_rows_info(int fd, uint32_t *count) {
    return answer(Call("get_dram_pending_rows_info", fd, Needs::working_card), count, [](Card &) { return 0u; });
}

SOFTGAUDI_API int hlthunk_get_engine_status(int fd, char *buffer, uint32_t size, int *actual_size) {
    const Call call("get_engine_status", fd, Needs::working_card);
    if (!buffer || !actual_size || size < kKiB || size > kMiB)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    std::string text =
        gaudi::os::format("softgaudi card {}: queue, kind, unit, stream, waiting\n", call.card().module_id());
    {
        const CardLock lock(call.card());
        static constexpr std::array kinds = {"none", "pdma", "edma", "mme", "tpc", "nic", "rotator"};
        for (uint32_t id = 0; id < kQueues; ++id) {
            const Queue known = queue(id);
            const uint32_t load = call.card().context().queue_load[id];
            if (known.engine == Engine::pdma || known.engine == Engine::edma || load != 0)
                text += gaudi::os::format("{} {} {} {} {}\n", id, kinds[static_cast<size_t>(known.engine)], known.unit,
                                          known.stream, load);
        }
    }
    if (text.size() > size)
        return fail(ENOMEM);
    std::memcpy(buffer, text.data(), text.size());
    *actual_size = static_cast<int>(text.size());
    return 0;
}

SOFTGAUDI_API int hlthunk_get_event_record(int fd, hlthunk_event_record_id id, void *record) {
    const Call call("get_event_record", fd, Needs::anything);
    if (!record)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    const Records &records = call.card().state().records;
    switch (id) {
    case HLTHUNK_OPEN_DEV:
        std::memcpy(record, &records.open, sizeof records.open);
        return 0;
    case HLTHUNK_CS_TIMEOUT:
        std::memcpy(record, &records.cs_timeout, sizeof records.cs_timeout);
        return 0;
    case HLTHUNK_RAZWI_EVENT:
        std::memcpy(record, &records.razwi, sizeof records.razwi);
        return 0;
    case HLTHUNK_UNDEFINED_OPCODE:
        std::memcpy(record, &records.undefined_opcode, sizeof records.undefined_opcode);
        return 0;
    case HLTHUNK_HW_ERR_OPCODE:
        std::memset(record, 0, sizeof(hlthunk_event_record_critical_hw_err));
        return 0;
    case HLTHUNK_FW_ERR_OPCODE:
        std::memset(record, 0, sizeof(hlthunk_event_record_critical_fw_err));
        return 0;
    }
    return fail(EINVAL);
}

SOFTGAUDI_API int hlthunk_get_page_fault_info(int fd, hlthunk_page_fault_info *info, uint32_t num_of_alloc_entries) {
    const Call call("get_page_fault_info", fd, Needs::anything);
    if (!info)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    const Records &records = call.card().state().records;
    if (!records.page_fault_valid)
        return 0; // nothing captured: the caller's buffer stays as it is
    info->timestamp = records.page_fault.timestamp;
    info->addr = records.page_fault.addr;
    info->engine_id = records.page_fault.engine_id;
    info->num_of_mappings = records.page_fault_mappings;
    if (num_of_alloc_entries < records.page_fault_mappings)
        return fail(ENOMEM); // the count returned is the number needed
    if (records.page_fault_mappings != 0 && !info->mappings)
        return fail(EINVAL);
    std::copy_n(records.mappings.begin(), records.page_fault_mappings, info->mappings);
    return 0;
}
