// SPDX-License-Identifier: BSD-3-Clause
#include "information.h"

#include <x86intrin.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string_view>

namespace softgaudi {

hlthunk_hw_ip_info describe(const Card &card) {
    const Model &model = card.model();
    hlthunk_hw_ip_info info{};
    info.sram_base_address = model.sram_base;
    info.sram_size = static_cast<uint32_t>(model.sram_bytes);
    info.dram_base_address = model.dram.begin;
    info.dram_size = model.dram_user();
    info.num_of_events = 1329;
    info.device_id = model.device_id;
    info.cpld_version = 0x10;
    info.dram_enabled = 1;
    // A verification record is of a firmware: that of softgaudi promises an order which this quirk breaks.
    const std::string_view firmware = card.config().quirks.early_flag ? "softgaudi-early-flag" : "softgaudi";
    firmware.copy(reinterpret_cast<char *>(info.cpucp_version), sizeof info.cpucp_version - 1);
    info.module_id = card.module_id();
    model.card_name.copy(reinterpret_cast<char *>(info.card_name), sizeof info.card_name - 1);
    info.decoder_enabled_mask = 0x3FF;
    info.mme_master_slave_mode = 1;
    info.tpc_enabled_mask = 0xFF;
    info.tpc_enabled_mask_ext = 0x1FFFFFF;
    const uint64_t page = card.behaviour().reported_page ? card.behaviour().reported_page : model.dram_page;
    info.dram_page_size = page;
    info.first_available_interrupt_id = model.first_interrupt;
    info.number_of_user_interrupts = model.user_interrupts;
    info.edma_enabled_mask = model.edma_mask;
    info.server_type = model.server_type;
    info.device_mem_alloc_default_page_size = page;
    info.nic_ports_mask = 0xFFFFFF;
    info.nic_ports_external_mask = 0x800100;
    info.mme_enabled_mask = 0xF;
    info.revision_id = static_cast<uint8_t>(model.revision_id);
    info.rotator_enabled_mask = 0x3;
    info.reserved_dram_size = model.dram_reserved;
    return info;
}

hlthunk_dram_usage_info dram_usage(Card &card, bool control) {
    const uint64_t used = card.in_use() ? card.context().dram_used : 0;
    return {card.model().dram_user() - used, control ? 0 : used};
}

hlthunk_open_stats_info open_stats(Card &card) {
    const CardState &state = card.state();
    hlthunk_open_stats_info info{};
    info.open_counter = state.open_counter;
    const bool active = card.in_use();
    const uint64_t end = active || state.last_close_ns == 0 ? monotonic_ns() : state.last_close_ns;
    info.last_open_period_ms = state.open_counter == 0 ? 0 : (end - state.last_open_ns) / 1'000'000;
    info.is_compute_ctx_active = active;
    info.compute_ctx_has_mapped_resources = active && state.context.mapping_count != 0;
    return info;
}

hlthunk_engines_idle_info engines_idle(Card &card) {
    hlthunk_engines_idle_info info{};
    info.is_idle = !card.in_use() || card.idle();
    if (info.is_idle)
        return info;
    const auto &load = card.context().queue_load;
    for (uint32_t queue = 0; queue < kQueues; ++queue)
        if (load[queue] != 0)
            info.mask[queue / kStreams / 64] |= uint64_t{1} << (queue / kStreams % 64);
    return info;
}

hlthunk_time_sync_info time_sync(const Card &card) {
    timespec raw{};
    clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
    hlthunk_time_sync_info info{};
    info.host_time = static_cast<uint64_t>(raw.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(raw.tv_nsec);
    // The device counter runs at 200 MHz; with a virtual clock it shows that clock's nanoseconds.
    info.device_time = card.clock().is_virtual() ? card.clock().now() : info.host_time / 5;
    info.tsc_time = __rdtsc();
    return info;
}

hlthunk_pci_counters_info pci_counters(Card &card) {
    const Traffic &traffic = card.state().traffic;
    hlthunk_pci_counters_info info{};
    info.rx_throughput = traffic.down_bytes.load() / kKiB;
    info.tx_throughput = traffic.up_bytes.load() / kKiB;
    return info;
}

hlthunk_sync_manager_info sync_manager(uint32_t dcore) {
    // The driver uses the objects below these: one per submission in flight, and two per queue for signals.
    if (dcore == 0)
        return {413, 289, 2, 0};
    return {};
}

hlthunk_pll_frequency_info pll_frequency(uint32_t index) {
    const auto base = static_cast<uint16_t>(800 + 50 * index);
    return {{base, base, static_cast<uint16_t>(base / 2), static_cast<uint16_t>(base / 4)}};
}

uint64_t energy_mj(Card &card) {
    const Traffic &traffic = card.state().traffic;
    const uint64_t moved = traffic.down_bytes.load() + traffic.up_bytes.load() + traffic.card_bytes.load() +
                           traffic.fill_bytes.load() + traffic.host_bytes.load();
    return monotonic_ns() / 1'000'000 * 100 + moved / kMiB; // 100 W when idle, and energy for every byte moved
}

uint64_t power_mw(Card &card) { return card.in_use() && !card.idle() ? 350'000 : 100'000; }

uint32_t clock_mhz(Card &card) { return card.in_use() && !card.idle() ? kMaxClockMhz : 800; }

uint32_t utilization_percent(Card &card) { return card.in_use() && !card.idle() ? 100 : 0; }

} // namespace softgaudi
