// SPDX-License-Identifier: BSD-3-Clause
// Information: what a card reports, and how that changes with its work.
#include "steps.h"

#include <ctime>

using namespace soft;

namespace {

class Info : public SoftTest {};

/// A control descriptor of the first card.
class Control {
public:
    Control() : fd(hlthunk_open_control(0, nullptr)) { EXPECT_GE(fd, 0); }
    ~Control() { EXPECT_EQ(hlthunk_close(fd), 0); }
    Control(const Control &) = delete;
    Control &operator=(const Control &) = delete;

    const int fd;
};

hlthunk_hw_ip_info identity(int fd) {
    hlthunk_hw_ip_info info{};
    EXPECT_EQ(hlthunk_get_hw_ip_info(fd, &info), 0);
    return info;
}

hlthunk_dram_usage_info usage(int fd) {
    hlthunk_dram_usage_info info{};
    EXPECT_EQ(hlthunk_get_dram_usage(fd, &info), 0);
    return info;
}

hlthunk_open_stats_info open_stats(int fd) {
    hlthunk_open_stats_info info{};
    EXPECT_EQ(hlthunk_get_open_stats(fd, &info), 0);
    return info;
}

hlthunk_pci_counters_info pci(int fd) {
    hlthunk_pci_counters_info info{};
    EXPECT_EQ(hlthunk_get_pci_counters_info(fd, &info), 0);
    return info;
}

uint32_t clock_now(int fd) {
    uint32_t current = 0, max = 0;
    EXPECT_EQ(hlthunk_get_clk_rate(fd, &current, &max), 0);
    EXPECT_LE(current, max);
    return current;
}

uint32_t utilization(int fd) {
    uint32_t rate = 999;
    EXPECT_EQ(hlthunk_get_device_utilization(fd, 500, &rate), 0);
    return rate;
}

uint64_t power(int fd) {
    hlthunk_power_info info{};
    EXPECT_EQ(hlthunk_get_power_info(fd, &info), 0);
    return info.power;
}

// ---- identity

TEST_F(Info, identity_of_gaudi2_matches_the_hardware) {
    const Control control;
    const auto info = identity(control.fd);
    EXPECT_EQ(info.device_id, 0x1020u);
    EXPECT_EQ(info.sram_base_address, kSram);
    EXPECT_EQ(info.sram_size, 48 * kMiB);
    EXPECT_EQ(info.dram_base_address, 0x1001001800000000u);
    EXPECT_EQ(info.dram_size, 127 * kPage);
    EXPECT_EQ(info.dram_size / kMiB, 97536u);
    EXPECT_EQ(info.reserved_dram_size, kPage);
    EXPECT_EQ(info.dram_page_size, kPage);
    EXPECT_EQ(info.device_mem_alloc_default_page_size, kPage);
    EXPECT_EQ(info.dram_enabled, 1);
    EXPECT_EQ(info.edma_enabled_mask, 0xFFu);
    EXPECT_EQ(info.tpc_enabled_mask, 0xFFu);
    EXPECT_EQ(info.tpc_enabled_mask_ext, 0x1FFFFFFu);
    EXPECT_EQ(info.decoder_enabled_mask, 0x3FFu);
    EXPECT_EQ(info.mme_master_slave_mode, 1);
    EXPECT_EQ(info.first_available_interrupt_id, 257u);
    EXPECT_EQ(info.number_of_user_interrupts, 255u);
    EXPECT_EQ(info.num_of_events, 1329u);
    EXPECT_STREQ(reinterpret_cast<const char *>(info.card_name), "HL225");
    EXPECT_STRNE(reinterpret_cast<const char *>(info.cpucp_version), "");
    EXPECT_EQ(hlthunk_get_device_id_from_fd(control.fd), 0x1020u);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(control.fd), HLTHUNK_DEVICE_GAUDI2);
}

TEST_F(Info, identity_of_gaudi3_matches_the_hardware) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    const Control control;
    const auto info = identity(control.fd);
    EXPECT_EQ(info.device_id, 0x1060u);
    EXPECT_EQ(info.device_mem_alloc_default_page_size, 32 * kMiB);
    EXPECT_EQ(info.sram_size, 0u);
    EXPECT_EQ(info.first_available_interrupt_id, 256u);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(control.fd), HLTHUNK_DEVICE_GAUDI3);
    uint64_t orders = 0;
    EXPECT_EQ(hlthunk_get_dev_memalloc_page_orders(control.fd, &orders), 0);
    EXPECT_EQ(orders, 32 * kMiB | 64 * kMiB | 256 * kMiB | 512 * kMiB | 1 * kGiB | 2 * kGiB);
}

TEST_F(Info, module_ids_differ_from_card_indexes) {
    uint32_t seen = 0, differ = 0;
    for (int index = 0; index < 8; ++index) {
        const int fd = hlthunk_open_control(index, nullptr);
        ASSERT_GE(fd, 0);
        const uint32_t module = identity(fd).module_id;
        EXPECT_LT(module, 8u);
        seen |= 1u << module;
        differ += module != static_cast<uint32_t>(index);
        EXPECT_EQ(hlthunk_close(fd), 0);
    }
    EXPECT_EQ(seen, 0xFFu);
    EXPECT_GT(differ, 0u);
}

TEST_F(Info, gaudi2_offers_no_page_sizes) {
    const Control control;
    uint64_t orders = 77;
    EXPECT_EQ(hlthunk_get_dev_memalloc_page_orders(control.fd, &orders), 0);
    EXPECT_EQ(orders, 0u);
}

TEST_F(Info, sync_manager_reports_first_free_objects) {
    const Control control;
    hlthunk_sync_manager_info info{};
    EXPECT_EQ(hlthunk_get_sync_manager_info(control.fd, 0, &info), 0);
    EXPECT_EQ(info.first_available_sync_object, 413u);
    EXPECT_EQ(info.first_available_monitor, 289u);
    EXPECT_EQ(info.first_available_cq, 2u);
    for (int dcore = 1; dcore < 8; ++dcore) {
        info = {1, 1, 1, 1};
        EXPECT_EQ(hlthunk_get_sync_manager_info(control.fd, dcore, &info), 0);
        EXPECT_EQ(info.first_available_sync_object, 0u);
        EXPECT_EQ(info.first_available_cq, 0u);
    }
    EXPECT_EQ(hlthunk_get_sync_manager_info(control.fd, 8, &info), -EINVAL);
    EXPECT_EQ(hlthunk_get_sync_manager_info(control.fd, -1, &info), -EINVAL);
}

// ---- values that change

TEST_F(Info, memory_usage_follows_allocations) {
    const Control control;
    const uint64_t all = identity(control.fd).dram_size;
    EXPECT_EQ(usage(control.fd).dram_free_mem, all);
    {
        Card card("0000:19:00.0");
        EXPECT_EQ(usage(card.fd).ctx_dram_mem, 0u);
        const uint64_t one = hlthunk_device_memory_alloc(card.fd, 1, 0, false, false);
        EXPECT_EQ(usage(card.fd).ctx_dram_mem, kPage);
        EXPECT_EQ(usage(card.fd).dram_free_mem, all - kPage);
        hlthunk_device_memory_alloc(card.fd, 2 * kPage + 1, 0, false, false);
        EXPECT_EQ(usage(card.fd).dram_free_mem, all - 4 * kPage);
        EXPECT_EQ(hlthunk_device_memory_free(card.fd, one), 0);
        EXPECT_EQ(usage(card.fd).ctx_dram_mem, 3 * kPage);
        EXPECT_EQ(usage(control.fd).dram_free_mem, all - 3 * kPage);
        EXPECT_EQ(usage(control.fd).ctx_dram_mem, 0u); // a control node has no context
    }
    EXPECT_EQ(usage(control.fd).dram_free_mem, all);
}

TEST_F(Info, open_statistics_follow_opens) {
    const Control control;
    EXPECT_EQ(open_stats(control.fd).open_counter, 0u);
    EXPECT_EQ(open_stats(control.fd).is_compute_ctx_active, 0);
    for (uint64_t i = 1; i <= 3; ++i) {
        Card card("0000:19:00.0");
        EXPECT_EQ(open_stats(control.fd).open_counter, i);
        EXPECT_EQ(open_stats(card.fd).is_compute_ctx_active, 1);
        EXPECT_EQ(open_stats(card.fd).compute_ctx_has_mapped_resources, 0);
        card.memory();
        EXPECT_EQ(open_stats(card.fd).compute_ctx_has_mapped_resources, 1);
    }
    EXPECT_EQ(open_stats(control.fd).open_counter, 3u);
    EXPECT_EQ(open_stats(control.fd).is_compute_ctx_active, 0);
    EXPECT_EQ(open_stats(control.fd).compute_ctx_in_release, 0);
    EXPECT_EQ(open_stats(control.fd).last_open_period_ms, open_stats(control.fd).last_open_period_ms);
}

TEST_F(Info, busy_card_reports_its_busy_engines) {
    Card card;
    hlthunk_engines_idle_info info{};
    EXPECT_TRUE(hlthunk_is_device_idle(card.fd));
    EXPECT_EQ(hlthunk_get_busy_engines_mask(card.fd, &info), 0);
    EXPECT_EQ(info.is_idle, 1u);
    EXPECT_EQ(info.mask[0], 0u);
    const uint64_t seq = card.submit(kDown, Packets().fence());
    EXPECT_FALSE(hlthunk_is_device_idle(card.fd));
    EXPECT_EQ(hlthunk_get_busy_engines_mask(card.fd, &info), 0);
    EXPECT_EQ(info.is_idle, 0u);
    EXPECT_NE(info.mask[0] | info.mask[1] | info.mask[2] | info.mask[3], 0u);
    card.run(kUp, opening(kDown));
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_TRUE(hlthunk_is_device_idle(card.fd)); // directly after the wait
}

TEST_F(Info, clock_power_and_utilization_rise_with_work) {
    Card card;
    const uint32_t idle_clock = clock_now(card.fd);
    const uint64_t idle_power = power(card.fd);
    EXPECT_GT(idle_clock, 0u);
    EXPECT_GT(idle_power, 0u);
    EXPECT_EQ(utilization(card.fd), 0u);
    const uint64_t seq = card.submit(kDown, Packets().fence());
    EXPECT_GT(clock_now(card.fd), idle_clock);
    EXPECT_GT(power(card.fd), idle_power);
    EXPECT_GT(utilization(card.fd), 0u);
    EXPECT_LE(utilization(card.fd), 100u);
    card.run(kUp, opening(kDown));
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(clock_now(card.fd), idle_clock);
    EXPECT_EQ(utilization(card.fd), 0u);
}

TEST_F(Info, energy_does_not_decrease) {
    Card card;
    hlthunk_energy_info before{}, after{};
    EXPECT_EQ(hlthunk_get_total_energy_consumption_info(card.fd, &before), 0);
    std::vector<unsigned char> host(4 * kMiB);
    card.run(kDown, Packets().copy(card.map(host), card.memory(), 4 * kMiB));
    EXPECT_EQ(hlthunk_get_total_energy_consumption_info(card.fd, &after), 0);
    EXPECT_GT(before.total_energy_consumption, 0u);
    EXPECT_GT(after.total_energy_consumption, before.total_energy_consumption);
}

TEST_F(Info, pci_counters_count_each_direction) {
    Card card;
    std::vector<unsigned char> host(kMiB);
    const uint64_t at = card.map(host), device = card.memory();
    const auto start = pci(card.fd);
    card.run(kDown, Packets().copy(at, device, kMiB));
    const auto down = pci(card.fd);
    EXPECT_GT(down.rx_throughput, start.rx_throughput);
    EXPECT_EQ(down.tx_throughput, start.tx_throughput);
    card.run(kUp, Packets().copy(device, at, kMiB));
    const auto up = pci(card.fd);
    EXPECT_EQ(up.rx_throughput, down.rx_throughput);
    EXPECT_GT(up.tx_throughput, down.tx_throughput);
    card.run(kOnCard, Packets().copy(device, device + 2 * kMiB, kMiB)); // no traffic on the bus
    EXPECT_EQ(pci(card.fd).rx_throughput, up.rx_throughput);
    EXPECT_EQ(pci(card.fd).tx_throughput, up.tx_throughput);
    EXPECT_EQ(up.replay_cnt, 0u);
}

TEST_F(Info, device_time_follows_host_time) {
    const Control control;
    const auto raw = [] {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC_RAW, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
    };
    const uint64_t before = raw();
    hlthunk_time_sync_info first{}, second{};
    EXPECT_EQ(hlthunk_get_time_sync_info(control.fd, &first), 0);
    const uint64_t after = raw();
    EXPECT_LE(before, first.host_time);
    EXPECT_LE(first.host_time, after);
    bool moved = false;
    for (int i = 0; i < 1'000'000 && !moved; ++i) {
        EXPECT_EQ(hlthunk_get_time_sync_info(control.fd, &second), 0);
        moved = second.device_time > first.device_time && second.host_time > first.host_time;
    }
    EXPECT_TRUE(moved);
}

TEST_F(Info, time_sync_writes_only_16_bytes) {
    const Control control;
    hlthunk_time_sync_info info{0, 0, 0x5a5a5a5a5a5a5a5a};
    EXPECT_EQ(hlthunk_get_time_sync_info(control.fd, &info), 0);
    EXPECT_NE(info.host_time, 0u);
    EXPECT_EQ(info.tsc_time, 0x5a5a5a5a5a5a5a5au);
}

TEST_F(Info, delayed_and_refused_submissions_are_counted) {
    Card card;
    hl_info_cs_counters before{}, after{};
    EXPECT_EQ(hlthunk_get_cs_counters_info(card.fd, &before), 0);
    EXPECT_EQ(before.ctx_validation_drop_cnt, 0u);
    std::array chunks = {Card::chunk(999, 0, 0)};
    uint64_t seq = 0;
    EXPECT_EQ(card.try_submit(chunks, seq), -EINVAL);
    EXPECT_EQ(hlthunk_get_cs_counters_info(card.fd, &after), 0);
    EXPECT_EQ(after.ctx_validation_drop_cnt, 1u);
    EXPECT_EQ(after.ctx_queue_full_drop_cnt, 0u);
    EXPECT_EQ(after.ctx_out_of_mem_drop_cnt, 0u);
}

TEST_F(Info, last_open_time_is_recorded) {
    const Control control;
    hlthunk_event_record_open_dev_time record{-1};
    EXPECT_EQ(hlthunk_get_event_record(control.fd, HLTHUNK_OPEN_DEV, &record), 0);
    EXPECT_EQ(record.timestamp, 0);
    const auto now = [] {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    };
    const int64_t before = now();
    Card card("0000:19:00.0");
    EXPECT_EQ(hlthunk_get_event_record(control.fd, HLTHUNK_OPEN_DEV, &record), 0);
    EXPECT_LE(before, record.timestamp);
    EXPECT_LE(record.timestamp, now());
}

// ---- before anything happened

TEST_F(Info, error_records_without_errors_are_empty) {
    const Control control;
    hlthunk_event_record_cs_timeout timeout{-1, 1};
    hlthunk_event_record_razwi_event razwi{};
    razwi.timestamp = -1;
    hlthunk_event_record_undefined_opcode opcode{};
    opcode.timestamp = -1;
    hlthunk_event_record_critical_hw_err hardware{-1, 1};
    hlthunk_event_record_critical_fw_err firmware{-1, 1, 1};
    EXPECT_EQ(hlthunk_get_event_record(control.fd, HLTHUNK_CS_TIMEOUT, &timeout), 0);
    EXPECT_EQ(hlthunk_get_event_record(control.fd, HLTHUNK_RAZWI_EVENT, &razwi), 0);
    EXPECT_EQ(hlthunk_get_event_record(control.fd, HLTHUNK_UNDEFINED_OPCODE, &opcode), 0);
    EXPECT_EQ(hlthunk_get_event_record(control.fd, HLTHUNK_HW_ERR_OPCODE, &hardware), 0);
    EXPECT_EQ(hlthunk_get_event_record(control.fd, HLTHUNK_FW_ERR_OPCODE, &firmware), 0);
    for (const int64_t timestamp :
         {timeout.timestamp, razwi.timestamp, opcode.timestamp, hardware.timestamp, firmware.timestamp})
        EXPECT_EQ(timestamp, 0);
    EXPECT_EQ(hlthunk_get_event_record(control.fd, static_cast<hlthunk_event_record_id>(6), &timeout), -EINVAL);
    hlthunk_page_fault_info fault{};
    fault.timestamp = 123;
    fault.addr = 456;
    EXPECT_EQ(hlthunk_get_page_fault_info(control.fd, &fault, 0), 0);
    EXPECT_EQ(fault.timestamp, 123); // unchanged
    EXPECT_EQ(fault.addr, 456u);
}

TEST_F(Info, healthy_card_has_no_bad_rows_and_no_throttling) {
    const Control control;
    hlthunk_dram_replaced_rows_info replaced{};
    replaced.num_replaced_rows = 9;
    uint32_t pending = 9;
    hlthunk_clk_throttle_info throttle{};
    throttle.clk_throttle_reason_bitmask = 9;
    EXPECT_EQ(hlthunk_get_dram_replaced_rows_info(control.fd, &replaced), 0);
    EXPECT_EQ(hlthunk_get_dram_pending_rows_info(control.fd, &pending), 0);
    EXPECT_EQ(hlthunk_get_clk_throttle_info(control.fd, &throttle), 0);
    EXPECT_EQ(replaced.num_replaced_rows, 0u);
    EXPECT_EQ(pending, 0u);
    EXPECT_EQ(throttle.clk_throttle_reason_bitmask, 0u);
}

TEST_F(Info, hardware_events_fill_buffers_of_any_size) {
    const Control control;
    for (const bool aggregate : {false, true}) {
        std::vector<uint32_t> events(1331, 7);
        EXPECT_EQ(hlthunk_get_hw_events_arr(control.fd, aggregate, 4096, events.data()), 0);
        EXPECT_EQ(events[0], 0u);
        EXPECT_EQ(events[1023], 0u);
        EXPECT_EQ(events[1024], 7u); // not one byte past the buffer
        EXPECT_EQ(hlthunk_get_hw_events_arr(control.fd, aggregate, 1329 * 4, events.data()), 0);
        EXPECT_EQ(events[1329], 7u);
        EXPECT_EQ(hlthunk_get_hw_events_arr(control.fd, aggregate, 0, events.data()), -EINVAL);
    }
}

TEST_F(Info, every_pll_has_a_frequency) {
    const Control control;
    for (uint32_t index = 0; index < 12; ++index) {
        hlthunk_pll_frequency_info info{};
        EXPECT_EQ(hlthunk_get_pll_frequency(control.fd, index, &info), 0) << index;
        EXPECT_GT(info.output[0], 0u);
    }
    hlthunk_pll_frequency_info info{};
    EXPECT_EQ(hlthunk_get_pll_frequency(control.fd, 12, &info), -EINVAL);
}

TEST_F(Info, asic_status_combines_status_power_and_opens) {
    Card card;
    hlthunk_hw_asic_status info{};
    EXPECT_EQ(hlthunk_get_hw_asic_status(card.fd, &info), 0);
    EXPECT_EQ(info.valid, 1);
    EXPECT_EQ(info.status, uint32_t{HL_DEVICE_STATUS_OPERATIONAL});
    EXPECT_EQ(info.open_stats.open_counter, 1u);
    EXPECT_GT(info.power.power, 0u);
    EXPECT_GT(info.timestamp_sec, 0u);
    EXPECT_EQ(card.wait(card.submit(kDown, Packets().add({0, 0}))), -EIO);
    EXPECT_EQ(hlthunk_get_hw_asic_status(card.fd, &info), 0); // also in reset
    EXPECT_EQ(info.status, uint32_t{HL_DEVICE_STATUS_IN_RESET});
}

TEST_F(Info, engine_status_is_printable_text) {
    Card card;
    std::vector<char> text(kMiB);
    int size = 0;
    const uint64_t seq = card.submit(kDown, Packets().fence());
    EXPECT_EQ(hlthunk_get_engine_status(card.fd, text.data(), static_cast<uint32_t>(text.size()), &size), 0);
    EXPECT_GT(size, 0);
    EXPECT_NE(std::string(text.data(), static_cast<size_t>(size)).find("pdma"), std::string::npos);
    EXPECT_EQ(hlthunk_get_engine_status(card.fd, text.data(), 1023, &size), -EINVAL);
    EXPECT_EQ(hlthunk_get_engine_status(card.fd, text.data(), kMiB + 1, &size), -EINVAL);
    EXPECT_EQ(hlthunk_get_engine_status(card.fd, nullptr, 4096, &size), -EINVAL);
    EXPECT_EQ(hlthunk_get_engine_status(card.fd, text.data(), 4096, nullptr), -EINVAL);
    card.run(kUp, opening(kDown));
    EXPECT_EQ(card.wait(seq), 0);
}

// ---- arguments

TEST_F(Info, null_result_pointer_is_refused) {
    const Control control;
    const int fd = control.fd;
    uint32_t word = 0;
    EXPECT_EQ(hlthunk_get_hw_ip_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_dram_usage(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_busy_engines_mask(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_open_stats(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_hw_asic_status(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_clk_rate(fd, nullptr, &word), -EINVAL);
    EXPECT_EQ(hlthunk_get_clk_rate(fd, &word, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_clk_throttle_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_pll_frequency(fd, 0, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_device_utilization(fd, 1, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_hw_events_arr(fd, false, 4096, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_reset_count_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_time_sync_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_sync_manager_info(fd, 0, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_cs_counters_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_pci_counters_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_total_energy_consumption_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_power_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_dev_memalloc_page_orders(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_dram_replaced_rows_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_dram_pending_rows_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_sec_attest_info(fd, 1, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_event_record(fd, HLTHUNK_OPEN_DEV, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_get_page_fault_info(fd, nullptr, 0), -EINVAL);
    EXPECT_EQ(hlthunk_get_info(fd, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_fw_send_generic_request(fd, nullptr, 0, 0), -EINVAL);
}

TEST_F(Info, descriptor_of_no_card_fails_with_errno) {
    const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    ASSERT_GE(other, 0);
    for (const auto &[fd, error] : {std::pair{-1, EBADF}, {other, ENOTTY}}) {
        hlthunk_hw_ip_info info{};
        errno = 0;
        EXPECT_EQ(hlthunk_get_hw_ip_info(fd, &info), -error);
        EXPECT_EQ(errno, error);
        EXPECT_EQ(static_cast<int>(hlthunk_get_device_status_info(fd)), -error);
        EXPECT_FALSE(hlthunk_is_device_idle(fd));
        EXPECT_EQ(hlthunk_get_device_id_from_fd(fd), 0u);
        EXPECT_EQ(hlthunk_get_device_name_from_fd(fd), HLTHUNK_DEVICE_INVALID);
    }
    close(other);
}

// ---- the raw call

class RawInfo : public Info {
protected:
    template <class T>
    static int query(int fd, uint32_t op, T &answer, uint32_t argument = 0) {
        hl_info_args args{};
        args.return_pointer = reinterpret_cast<uint64_t>(&answer);
        args.return_size = sizeof answer;
        args.op = op;
        args.dcore_id = argument;
        return hlthunk_get_info(fd, &args);
    }
    template <class T>
    static T at(const std::array<unsigned char, 304> &bytes, size_t offset) {
        T value;
        std::memcpy(&value, bytes.data() + offset, sizeof value);
        return value;
    }
};

TEST_F(RawInfo, identity_has_the_kernels_layout) {
    const Control control;
    std::array<unsigned char, 304> raw{};
    ASSERT_EQ(query(control.fd, HL_INFO_HW_IP_INFO, raw), 0);
    const auto known = identity(control.fd);
    EXPECT_EQ(at<uint64_t>(raw, 0), known.sram_base_address);
    EXPECT_EQ(at<uint64_t>(raw, 8), known.dram_base_address);
    EXPECT_EQ(at<uint64_t>(raw, 16), known.dram_size);
    EXPECT_EQ(at<uint32_t>(raw, 24), known.sram_size);
    EXPECT_EQ(at<uint32_t>(raw, 28), known.num_of_events);
    EXPECT_EQ(at<uint32_t>(raw, 32), known.device_id);
    EXPECT_EQ(at<uint32_t>(raw, 36), known.module_id);
    EXPECT_EQ(at<uint32_t>(raw, 40), known.decoder_enabled_mask);
    EXPECT_EQ(at<uint16_t>(raw, 44), known.first_available_interrupt_id);
    EXPECT_EQ(at<uint16_t>(raw, 46), known.server_type);
    EXPECT_EQ(at<uint32_t>(raw, 48), known.cpld_version);
    EXPECT_EQ(at<uint8_t>(raw, 68), known.tpc_enabled_mask);
    EXPECT_EQ(at<uint8_t>(raw, 69), known.dram_enabled);
    EXPECT_EQ(at<uint8_t>(raw, 71), known.mme_master_slave_mode);
    EXPECT_EQ(std::memcmp(&raw[72], known.cpucp_version, 128), 0);
    EXPECT_EQ(std::memcmp(&raw[200], known.card_name, 16), 0);
    EXPECT_EQ(at<uint64_t>(raw, 216), known.tpc_enabled_mask_ext);
    EXPECT_EQ(at<uint64_t>(raw, 224), known.dram_page_size);
    EXPECT_EQ(at<uint32_t>(raw, 232), known.edma_enabled_mask);
    EXPECT_EQ(at<uint16_t>(raw, 236), known.number_of_user_interrupts);
    EXPECT_EQ(at<uint64_t>(raw, 248), known.device_mem_alloc_default_page_size);
    EXPECT_EQ(at<uint8_t>(raw, 277), known.revision_id);
    EXPECT_EQ(at<uint32_t>(raw, 280), known.rotator_enabled_mask);
    EXPECT_EQ(at<uint64_t>(raw, 296), known.reserved_dram_size);
}

TEST_F(RawInfo, result_is_cut_to_the_callers_size) {
    const Control control;
    std::array<unsigned char, 304> raw;
    raw.fill(0x77);
    hl_info_args args{};
    args.return_pointer = reinterpret_cast<uint64_t>(raw.data());
    args.return_size = 16;
    args.op = HL_INFO_HW_IP_INFO;
    ASSERT_EQ(hlthunk_get_info(control.fd, &args), 0);
    EXPECT_EQ(at<uint64_t>(raw, 0), kSram);
    EXPECT_EQ(raw[16], 0x77);
}

TEST_F(RawInfo, result_equals_that_of_the_functions) {
    Card card;
    card.memory();
    std::array<uint64_t, 2> memory{};
    EXPECT_EQ(query(card.fd, HL_INFO_DRAM_USAGE, memory), 0);
    EXPECT_EQ(memory[0], usage(card.fd).dram_free_mem);
    EXPECT_EQ(memory[1], kPage);
    std::array<uint32_t, 2> pair{};
    EXPECT_EQ(query(card.fd, HL_INFO_DEVICE_STATUS, pair), 0);
    EXPECT_EQ(pair[0], uint32_t{HL_DEVICE_STATUS_OPERATIONAL});
    EXPECT_EQ(query(card.fd, HL_INFO_CLK_RATE, pair), 0);
    EXPECT_EQ(pair[0], clock_now(card.fd));
    EXPECT_EQ(query(card.fd, HL_INFO_RESET_COUNT, pair), 0);
    EXPECT_EQ(pair[0], 0u);
    EXPECT_EQ(query(card.fd, HL_INFO_DEVICE_UTILIZATION, pair), 0);
    EXPECT_EQ(pair[0], 0u);
    std::array<uint32_t, 10> idle{};
    EXPECT_EQ(query(card.fd, HL_INFO_HW_IDLE, idle), 0);
    EXPECT_EQ(idle[0], 1u);
    std::array<uint64_t, 2> time{};
    EXPECT_EQ(query(card.fd, HL_INFO_TIME_SYNC, time), 0);
    EXPECT_GT(time[1], 0u);
    hlthunk_sync_manager_info sync{};
    EXPECT_EQ(query(card.fd, HL_INFO_SYNC_MANAGER, sync), 0);
    EXPECT_EQ(sync.first_available_sync_object, 413u);
    EXPECT_EQ(query(card.fd, HL_INFO_SYNC_MANAGER, sync, 8), -EINVAL);
    hlthunk_open_stats_info stats{};
    EXPECT_EQ(query(card.fd, HL_INFO_OPEN_STATS, stats), 0);
    EXPECT_EQ(stats.open_counter, 1u);
    uint64_t orders = 7, energy = 0, watts = 0;
    EXPECT_EQ(query(card.fd, HL_INFO_DEV_MEM_ALLOC_PAGE_SIZES, orders), 0);
    EXPECT_EQ(orders, 0u);
    EXPECT_EQ(query(card.fd, HL_INFO_TOTAL_ENERGY, energy), 0);
    EXPECT_GT(energy, 0u);
    EXPECT_EQ(query(card.fd, HL_INFO_POWER, watts), 0);
    EXPECT_EQ(watts, power(card.fd));
    hl_info_cs_counters counters{};
    EXPECT_EQ(query(card.fd, HL_INFO_CS_COUNTERS, counters), 0);
    hlthunk_pci_counters_info bus{};
    EXPECT_EQ(query(card.fd, HL_INFO_PCI_COUNTERS, bus), 0);
    std::array<uint32_t, 1024> events{};
    EXPECT_EQ(query(card.fd, HL_INFO_HW_EVENTS, events), 0);
    EXPECT_EQ(query(card.fd, HL_INFO_HW_EVENTS_AGGREGATE, events), 0);
    std::array<uint16_t, 4> pll{};
    hlthunk_pll_frequency_info known{};
    EXPECT_EQ(query(card.fd, HL_INFO_PLL_FREQUENCY, pll, 3), 0);
    EXPECT_EQ(hlthunk_get_pll_frequency(card.fd, 3, &known), 0);
    EXPECT_EQ(pll[0], known.output[0]);
    EXPECT_EQ(query(card.fd, HL_INFO_PLL_FREQUENCY, pll, 12), -EINVAL);
    hlthunk_clk_throttle_info throttle{};
    EXPECT_EQ(query(card.fd, HL_INFO_CLK_THROTTLE_REASON, throttle), 0);
}

TEST_F(RawInfo, error_records_are_returned) {
    constexpr uint32_t kOpenTime = 23, kCsTimeout = 24, kRazwi = 25, kUndefinedOpcode = 31, kPageFault = 33;
    constexpr uint64_t kNowhere = 0xFFF0123456789A00;
    Card card;
    int64_t opened = 0;
    EXPECT_EQ(query(card.fd, kOpenTime, opened), 0);
    EXPECT_GT(opened, 0);
    hlthunk_event_record_cs_timeout timeout{};
    EXPECT_EQ(query(card.fd, kCsTimeout, timeout), 0);
    hlthunk_event_record_razwi_event razwi{};
    EXPECT_EQ(query(card.fd, kRazwi, razwi), 0);
    hlthunk_event_record_undefined_opcode opcode{};
    EXPECT_EQ(query(card.fd, kUndefinedOpcode, opcode), 0);
    struct {
        int64_t timestamp;
        uint64_t address;
        uint16_t engine;
    } fault{5, 6, 7};
    EXPECT_EQ(query(card.fd, kPageFault, fault), 0);
    EXPECT_EQ(fault.timestamp, 5); // no record yet: unchanged
    EXPECT_EQ(card.wait(card.submit(kDown, Packets().message(kNowhere, 1))), -EIO);
    EXPECT_EQ(query(card.fd, kPageFault, fault), 0); // also in reset
    EXPECT_GT(fault.timestamp, 5);
    EXPECT_EQ(fault.address, kNowhere);
    EXPECT_EQ(query(card.fd, kUndefinedOpcode, opcode), 0);
    EXPECT_EQ(opcode.timestamp, 0);
}

TEST_F(RawInfo, events_are_cleared_by_reading) {
    Card card;
    const Notifier notifier(card);
    EXPECT_EQ(card.wait(card.submit(kDown, Packets().add({0, 0}))), -EIO);
    uint64_t events = 0;
    uint32_t half = 0;
    EXPECT_EQ(query(card.fd, HL_INFO_GET_EVENTS, half), -EINVAL);
    EXPECT_EQ(query(card.fd, HL_INFO_GET_EVENTS, events), 0);
    EXPECT_EQ(events, uint64_t{HL_NOTIFIER_EVENT_UNDEFINED_OPCODE | HL_NOTIFIER_EVENT_USER_ENGINE_ERR |
                               HL_NOTIFIER_EVENT_DEVICE_RESET});
    EXPECT_EQ(query(card.fd, HL_INFO_GET_EVENTS, events), 0);
    EXPECT_EQ(events, 0u);
    const Control control;
    EXPECT_EQ(query(control.fd, HL_INFO_GET_EVENTS, events), -EOPNOTSUPP);
}

TEST_F(RawInfo, wrong_arguments_and_operations_are_refused) {
    const Control control;
    uint64_t answer = 0;
    hl_info_args args{};
    args.op = HL_INFO_POWER;
    args.return_size = 8;
    EXPECT_EQ(hlthunk_get_info(control.fd, &args), -EINVAL); // no result buffer
    args.return_pointer = reinterpret_cast<uint64_t>(&answer);
    args.return_size = 0;
    EXPECT_EQ(hlthunk_get_info(control.fd, &args), -EINVAL);
    args.return_size = 8;
    args.pad = 1;
    EXPECT_EQ(hlthunk_get_info(control.fd, &args), -EINVAL);
    args.pad = 0;
    EXPECT_EQ(hlthunk_get_info(control.fd, &args), 0);
    for (const uint32_t op : {5u, 99u, 254u, UINT32_MAX})
        EXPECT_EQ(query(control.fd, op, answer), -EINVAL) << op;
}

// ---- debug mode

TEST_F(Info, debug_mode_is_set_once_and_ends_with_close) {
    const auto mode = [](int fd, bool on) {
        hl_debug_args args{};
        args.op = HL_DEBUG_OP_SET_MODE;
        args.enable = on;
        return hlthunk_debug(fd, &args);
    };
    {
        Card card;
        EXPECT_EQ(mode(card.fd, false), -EFAULT); // it is off already
        EXPECT_EQ(mode(card.fd, true), 0);
        EXPECT_EQ(mode(card.fd, true), -EFAULT);
        EXPECT_EQ(mode(card.fd, false), 0);
        EXPECT_EQ(mode(card.fd, true), 0);
    }
    Card card;
    EXPECT_EQ(mode(card.fd, true), 0);
    hl_debug_args args{};
    args.op = HL_DEBUG_OP_SET_MODE + 1;
    EXPECT_EQ(hlthunk_debug(card.fd, &args), -EINVAL);
    EXPECT_EQ(hlthunk_debug(card.fd, nullptr), -EINVAL);
    const Control control;
    EXPECT_EQ(mode(control.fd, true), -ENOTTY);
}

TEST_F(Info, trace_units_need_debug_mode) {
    Card card;
    hl_debug_args args{};
    for (args.op = 0; args.op < HL_DEBUG_OP_SET_MODE; ++args.op)
        EXPECT_EQ(hlthunk_debug(card.fd, &args), -EFAULT) << args.op;
}

// ---- functions without a model

TEST_F(Info, unmodelled_functions_fail_and_print_one_line_each) {
    Card card;
    hlthunk_sec_attest_info attest{};
    hlthunk_sig_res_in reserve{};
    hlthunk_sig_res_out reserved{};
    reserve_sig_handle handle{};
    hlthunk_wait_in wait_in{};
    hlthunk_wait_out wait_out{};
    hlthunk_debugfs debugfs{};
    uint32_t word = 0, id = 0;
    const std::vector<std::pair<std::string, std::function<int()>>> functions = {
        {"reserve_encaps_signals", [&] { return hlthunk_reserve_encaps_signals(card.fd, &reserve, &reserved); }},
        {"unreserve_encaps_signals", [&] { return hlthunk_unreserve_encaps_signals(card.fd, &handle, &word); }},
        {"wait_for_reserved_encaps_signals",
         [&] { return hlthunk_wait_for_reserved_encaps_signals(card.fd, &wait_in, &wait_out); }},
        {"wait_for_reserved_encaps_collective_signals",
         [&] { return hlthunk_wait_for_reserved_encaps_collective_signals(card.fd, &wait_in, &wait_out); }},
        {"engines_command", [&] { return hlthunk_engines_command(card.fd, &id, 1, HL_ENGINE_STALL); }},
        {"engine_cores_set_mode", [&] { return hlthunk_engine_cores_set_mode(card.fd, &id, 1, HL_ENGINE_CORE_RUN); }},
        {"get_sec_attest_info", [&] { return hlthunk_get_sec_attest_info(card.fd, 1, &attest); }},
        {"fw_send_generic_request", [&] { return hlthunk_fw_send_generic_request(card.fd, &word, 4, 0); }},
        {"debugfs_open", [&] { return hlthunk_debugfs_open(card.fd, &debugfs); }},
        {"debugfs_read", [&] { return hlthunk_debugfs_read(&debugfs, 0, &word); }},
        {"debugfs_write", [&] { return hlthunk_debugfs_write(&debugfs, 0, 0); }},
        {"debugfs_close", [&] { return hlthunk_debugfs_close(&debugfs); }},
    };
    for (const auto &[name, call] : functions) {
        for (const bool first : {true, false}) {
            testing::internal::CaptureStderr();
            errno = 0;
            const int result = call();
            const std::string printed = testing::internal::GetCapturedStderr();
            EXPECT_LT(result, 0) << name;
            EXPECT_EQ(errno, -result) << name;
            EXPECT_EQ(printed.find("hlthunk_" + name + " ") != std::string::npos, first) << name << ": " << printed;
        }
    }
}

TEST_F(Info, withdrawn_and_profiler_functions_fail_as_the_real_ones) {
    Card card;
    uint32_t status = 0;
    uint64_t value = 0;
    EXPECT_EQ(hlthunk_deprecated_func1(card.fd, 1, 0, &status, &value), -EPERM);
    EXPECT_EQ(hlthunk_deprecated_func2(card.fd, 257, 0, 0, 0, 0, 0), -EPERM);
    EXPECT_EQ(hlthunk_deprecated_func3(card.fd, 1, &value), -EPERM);
    EXPECT_EQ(hlthunk_profiler_start(card.fd), -1);
    EXPECT_EQ(hlthunk_profiler_stop(card.fd), -1);
    EXPECT_EQ(hlthunk_profiler_get_trace(card.fd, nullptr, &value, &value), -1);
    hlthunk_profiler_destroy();
}

} // namespace
