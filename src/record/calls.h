// SPDX-License-Identifier: BSD-3-Clause
// All functions of libhl-thunk with the meaning of their arguments and results: what the recorder stores and what a
// replay translates and compares.
#pragma once

#include "thunk/abi.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gaudi::record {

/// What a result is. Functions with `descriptor` to `notifier` create it.
enum class Answer : std::uint8_t {
    status,        // 0 or -errno; -1 with errno in a few
    descriptor,    // of a node
    dmabuf,        // descriptor of an export
    notifier,      // an eventfd
    handle,        // of device memory, 0 with errno on failure
    address,       // in the device's address space, 0 with errno on failure
    number,        // equal on equal cards
    device_status, // an enum hl_device_status
    passing,       // changes from moment to moment
    text,          // to be freed by hlthunk_free
    nothing,
};

enum class Role : std::uint8_t {
    value,
    descriptor,
    notifier,
    handle,   // of device memory
    buffer,   // handle of a command buffer, of timestamps or of a register block
    address,  // of a mapping, or inside one
    hint,     // an address that the caller would like
    host,     // host memory; the mapped length is a later argument
    sequence, // number of a submission
    name,     // text: a bus id
    in,
    in_out,
    out,
    noise, // as out, but changes from moment to moment
    out_buffer,
    out_address,
    out_name,
    out_status, // of a wait
    event_record,
    page_fault,
    info_args,
    debug_args,
    cs_in,
    signal_in,
    wait_in,
    multi_in,
    cs_out, // structures that begin with a sequence number
    opaque, // neither stored nor replayed
};

/// The argument at one position: `size` bytes, or `size` times argument `count`.
struct Argument {
    Role role = Role::value;
    std::uint32_t size = 0;
    std::uint8_t count = 0xFF;
};

struct Call {
    std::string_view name;
    Answer answer;
    bool replayed;
    std::size_t arity;
    std::array<Argument, 8> arguments;
};

template <class R, class... A>
constexpr std::size_t arity_of(R (*)(A...)) {
    return sizeof...(A);
}

namespace role {
inline constexpr Argument kValue{}, kDescriptor{Role::descriptor}, kNotifier{Role::notifier}, kHandle{Role::handle},
    kBuffer{Role::buffer}, kAddress{Role::address}, kHint{Role::hint}, kSequence{Role::sequence}, kName{Role::name},
    kOutBuffer{Role::out_buffer, 8}, kOutAddress{Role::out_address, 8}, kStatus{Role::out_status, 4},
    kStamp{Role::noise, 8}, kOpaque{Role::opaque};
constexpr Argument host(std::uint8_t length) { return {Role::host, 1, length}; }
template <class T>
constexpr Argument in() {
    return {Role::in, sizeof(T)};
}
template <class T>
constexpr Argument out() {
    return {Role::out, sizeof(T)};
}
template <class T>
constexpr Argument noise() {
    return {Role::noise, sizeof(T)};
}
template <class T>
constexpr Argument special(Role role) {
    return {role, sizeof(T)};
}
constexpr Argument array(Role role, std::uint32_t size, std::uint8_t count) { return {role, size, count}; }

inline constexpr Argument kCsIn = special<hlthunk_cs_in>(Role::cs_in), kCsOut = special<hlthunk_cs_out>(Role::cs_out),
                          kSignalIn = special<hlthunk_signal_in>(Role::signal_in),
                          kSignalOut = special<hlthunk_signal_out>(Role::cs_out),
                          kWaitIn = special<hlthunk_wait_in>(Role::wait_in),
                          kWaitOut = special<hlthunk_wait_out>(Role::cs_out),
                          kMultiIn = special<hlthunk_wait_multi_cs_in>(Role::multi_in);
} // namespace role

// X(name, result, (parameters), (arguments), answer, replayed, roles...): the compiler compares the parameters with
// those of thunk/abi.h. The order is that of the numbers in the file.
// clang-format off
#define GAUDI_RECORD_CALLS(X) \
    X(open, int, (enum hlthunk_device_name a, const char *b), (a, b), descriptor, true, role::kValue, role::kName) \
    X(open_by_module_id, int, (uint32_t a), (a), descriptor, true, role::kValue) \
    X(open_control, int, (int a, const char *b), (a, b), descriptor, true, role::kValue, role::kName) \
    X(open_control_by_name, int, (enum hlthunk_device_name a, const char *b), (a, b), descriptor, true, role::kValue, role::kName) \
    X(open_control_by_module_id, int, (uint32_t a), (a), descriptor, true, role::kValue) \
    X(open_control_by_bus_id, int, (const char *a), (a), descriptor, true, role::kName) \
    X(close, int, (int a), (a), status, true, role::kDescriptor) \
    X(get_device_id_from_fd, uint32_t, (int a), (a), number, true, role::kDescriptor) \
    X(get_device_name_from_fd, enum hlthunk_device_name, (int a), (a), number, true, role::kDescriptor) \
    X(get_pci_bus_id_from_fd, int, (int a, char *b, int c), (a, b, c), status, true, role::kDescriptor, role::array(Role::out_name, 1, 2), role::kValue) \
    X(get_device_index_from_pci_bus_id, int, (const char *a), (a), number, true, role::kName) \
    X(get_device_count, int, (enum hlthunk_device_name a), (a), number, true, role::kValue) \
    X(get_version, char *, (void), (), text, true, role::kValue) \
    X(malloc, void *, (size_t a), (a), passing, false, role::kValue) \
    X(free, void, (void *a), (a), nothing, false, role::kOpaque) \
    X(get_hw_ip_info, int, (int a, struct hlthunk_hw_ip_info *b), (a, b), status, true, role::kDescriptor, role::out<hlthunk_hw_ip_info>()) \
    X(get_device_status_info, int, (int a), (a), device_status, true, role::kDescriptor) \
    X(get_dram_usage, int, (int a, struct hlthunk_dram_usage_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_dram_usage_info>()) \
    X(is_device_idle, bool, (int a), (a), passing, true, role::kDescriptor) \
    X(get_busy_engines_mask, int, (int a, struct hlthunk_engines_idle_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_engines_idle_info>()) \
    X(get_open_stats, int, (int a, struct hlthunk_open_stats_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_open_stats_info>()) \
    X(get_hw_asic_status, int, (int a, struct hlthunk_hw_asic_status *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_hw_asic_status>()) \
    X(get_clk_rate, int, (int a, uint32_t *b, uint32_t *c), (a, b, c), status, true, role::kDescriptor, role::noise<uint32_t>(), role::noise<uint32_t>()) \
    X(get_clk_throttle_info, int, (int a, struct hlthunk_clk_throttle_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_clk_throttle_info>()) \
    X(get_pll_frequency, int, (int a, uint32_t b, struct hlthunk_pll_frequency_info *c), (a, b, c), status, true, role::kDescriptor, role::kValue, role::noise<hlthunk_pll_frequency_info>()) \
    X(get_device_utilization, int, (int a, uint32_t b, uint32_t *c), (a, b, c), status, true, role::kDescriptor, role::kValue, role::noise<uint32_t>()) \
    X(get_hw_events_arr, int, (int a, bool b, uint32_t c, uint32_t *d), (a, b, c, d), status, true, role::kDescriptor, role::kValue, role::kValue, role::array(Role::noise, 1, 2)) \
    X(get_reset_count_info, int, (int a, struct hlthunk_reset_count_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_reset_count_info>()) \
    X(get_time_sync_info, int, (int a, struct hlthunk_time_sync_info *b), (a, b), status, true, role::kDescriptor, role::array(Role::noise, 16, 0xFF)) \
    X(get_sync_manager_info, int, (int a, int b, struct hlthunk_sync_manager_info *c), (a, b, c), status, true, role::kDescriptor, role::kValue, role::out<hlthunk_sync_manager_info>()) \
    X(get_cs_counters_info, int, (int a, struct hl_info_cs_counters *b), (a, b), status, true, role::kDescriptor, role::noise<hl_info_cs_counters>()) \
    X(get_pci_counters_info, int, (int a, struct hlthunk_pci_counters_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_pci_counters_info>()) \
    X(get_total_energy_consumption_info, int, (int a, struct hlthunk_energy_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_energy_info>()) \
    X(get_power_info, int, (int a, struct hlthunk_power_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_power_info>()) \
    X(get_dev_memalloc_page_orders, int, (int a, uint64_t *b), (a, b), status, true, role::kDescriptor, role::out<uint64_t>()) \
    X(get_dram_replaced_rows_info, int, (int a, struct hlthunk_dram_replaced_rows_info *b), (a, b), status, true, role::kDescriptor, role::noise<hlthunk_dram_replaced_rows_info>()) \
    X(get_dram_pending_rows_info, int, (int a, uint32_t *b), (a, b), status, true, role::kDescriptor, role::noise<uint32_t>()) \
    X(get_sec_attest_info, int, (int a, uint32_t b, struct hlthunk_sec_attest_info *c), (a, b, c), status, true, role::kDescriptor, role::kValue, role::noise<hlthunk_sec_attest_info>()) \
    X(get_engine_status, int, (int a, char *b, uint32_t c, int *d), (a, b, c, d), status, true, role::kDescriptor, role::array(Role::noise, 1, 2), role::kValue, role::noise<int>()) \
    X(get_event_record, int, (int a, enum hlthunk_event_record_id b, void *c), (a, b, c), status, true, role::kDescriptor, role::kValue, Argument{Role::event_record}) \
    X(get_page_fault_info, int, (int a, struct hlthunk_page_fault_info *b, uint32_t c), (a, b, c), status, true, role::kDescriptor, role::special<hlthunk_page_fault_info>(Role::page_fault), role::kValue) \
    X(fw_send_generic_request, int, (int a, void *b, uint32_t c, uint32_t d), (a, b, c, d), status, true, role::kDescriptor, role::array(Role::in_out, 1, 2), role::kValue, role::kValue) \
    X(get_info, int, (int a, struct hl_info_args *b), (a, b), status, true, role::kDescriptor, role::special<hl_info_args>(Role::info_args)) \
    X(device_memory_alloc, uint64_t, (int a, uint64_t b, uint64_t c, bool d, bool e), (a, b, c, d, e), handle, true, role::kDescriptor, role::kValue, role::kValue, role::kValue, role::kValue) \
    X(device_memory_free, int, (int a, uint64_t b), (a, b), status, true, role::kDescriptor, role::kHandle) \
    X(device_memory_map, uint64_t, (int a, uint64_t b, uint64_t c), (a, b, c), address, true, role::kDescriptor, role::kHandle, role::kHint) \
    X(host_memory_map, uint64_t, (int a, void *b, uint64_t c, uint64_t d), (a, b, c, d), address, true, role::kDescriptor, role::host(3), role::kHint, role::kValue) \
    X(host_memory_map_flags, uint64_t, (int a, void *b, uint64_t c, uint64_t d, uint32_t e), (a, b, c, d, e), address, true, role::kDescriptor, role::host(3), role::kHint, role::kValue, role::kValue) \
    X(memory_unmap, int, (int a, uint64_t b), (a, b), status, true, role::kDescriptor, role::kAddress) \
    X(device_memory_export_dmabuf_fd, int, (int a, uint64_t b, uint64_t c, uint32_t d), (a, b, c, d), dmabuf, true, role::kDescriptor, role::kAddress, role::kValue, role::kValue) \
    X(device_mapped_memory_export_dmabuf_fd, int, (int a, uint64_t b, uint64_t c, uint64_t d, uint32_t e), (a, b, c, d, e), dmabuf, true, role::kDescriptor, role::kAddress, role::kValue, role::kValue, role::kValue) \
    X(get_hw_block, int, (int a, uint64_t b, uint32_t *c, uint64_t *d), (a, b, c, d), status, true, role::kDescriptor, role::kValue, role::out<uint32_t>(), role::kOutBuffer) \
    X(allocate_timestamp_elements, int, (int a, uint32_t b, uint64_t *c), (a, b, c), status, true, role::kDescriptor, role::kValue, role::kOutBuffer) \
    X(request_command_buffer, int, (int a, uint32_t b, uint64_t *c), (a, b, c), status, true, role::kDescriptor, role::kValue, role::kOutBuffer) \
    X(request_mapped_command_buffer, int, (int a, uint32_t b, uint64_t *c), (a, b, c), status, true, role::kDescriptor, role::kValue, role::kOutBuffer) \
    X(get_mapped_cb_device_va_by_handle, int, (int a, uint64_t b, uint64_t *c), (a, b, c), status, true, role::kDescriptor, role::kBuffer, role::kOutAddress) \
    X(get_cb_usage_count, int, (int a, uint64_t b, uint32_t *c), (a, b, c), status, true, role::kDescriptor, role::kBuffer, role::noise<uint32_t>()) \
    X(destroy_command_buffer, int, (int a, uint64_t b), (a, b), status, true, role::kDescriptor, role::kBuffer) \
    X(command_submission, int, (int a, struct hlthunk_cs_in *b, struct hlthunk_cs_out *c), (a, b, c), status, true, role::kDescriptor, role::kCsIn, role::kCsOut) \
    X(command_submission_timeout, int, (int a, struct hlthunk_cs_in *b, struct hlthunk_cs_out *c, uint32_t d), (a, b, c, d), status, true, role::kDescriptor, role::kCsIn, role::kCsOut, role::kValue) \
    X(staged_command_submission, int, (int a, uint64_t b, struct hlthunk_cs_in *c, struct hlthunk_cs_out *d), (a, b, c, d), status, true, role::kDescriptor, role::kSequence, role::kCsIn, role::kCsOut) \
    X(staged_command_submission_timeout, int, (int a, uint64_t b, struct hlthunk_cs_in *c, struct hlthunk_cs_out *d, uint32_t e), (a, b, c, d, e), status, true, role::kDescriptor, role::kSequence, role::kCsIn, role::kCsOut, role::kValue) \
    X(staged_command_submission_encaps_signals, int, (int a, uint64_t b, struct hlthunk_cs_in *c, struct hlthunk_cs_out *d), (a, b, c, d), status, true, role::kDescriptor, role::kValue, role::kCsIn, role::kCsOut) \
    X(wait_for_cs, int, (int a, uint64_t b, uint64_t c, uint32_t *d), (a, b, c, d), status, true, role::kDescriptor, role::kSequence, role::kValue, role::kStatus) \
    X(wait_for_cs_with_timestamp, int, (int a, uint64_t b, uint64_t c, uint32_t *d, uint64_t *e), (a, b, c, d, e), status, true, role::kDescriptor, role::kSequence, role::kValue, role::kStatus, role::kStamp) \
    X(wait_for_multi_cs, int, (int a, struct hlthunk_wait_multi_cs_in *b, struct hlthunk_wait_multi_cs_out *c), (a, b, c), status, true, role::kDescriptor, role::kMultiIn, role::noise<hlthunk_wait_multi_cs_out>()) \
    X(wait_for_multi_cs_with_timestamp, int, (int a, struct hlthunk_wait_multi_cs_in *b, struct hlthunk_wait_multi_cs_out *c, uint64_t *d), (a, b, c, d), status, true, role::kDescriptor, role::kMultiIn, role::noise<hlthunk_wait_multi_cs_out>(), role::kStamp) \
    X(signal_submission, int, (int a, struct hlthunk_signal_in *b, struct hlthunk_signal_out *c), (a, b, c), status, true, role::kDescriptor, role::kSignalIn, role::kSignalOut) \
    X(signal_submission_timeout, int, (int a, struct hlthunk_signal_in *b, struct hlthunk_signal_out *c, uint32_t d), (a, b, c, d), status, true, role::kDescriptor, role::kSignalIn, role::kSignalOut, role::kValue) \
    X(wait_for_signal, int, (int a, struct hlthunk_wait_in *b, struct hlthunk_wait_out *c), (a, b, c), status, true, role::kDescriptor, role::kWaitIn, role::kWaitOut) \
    X(wait_for_signal_timeout, int, (int a, struct hlthunk_wait_in *b, struct hlthunk_wait_out *c, uint32_t d), (a, b, c, d), status, true, role::kDescriptor, role::kWaitIn, role::kWaitOut, role::kValue) \
    X(wait_for_collective_signal, int, (int a, struct hlthunk_wait_in *b, struct hlthunk_wait_out *c), (a, b, c), status, true, role::kDescriptor, role::kWaitIn, role::kWaitOut) \
    X(wait_for_collective_signal_timeout, int, (int a, struct hlthunk_wait_in *b, struct hlthunk_wait_out *c, uint32_t d), (a, b, c, d), status, true, role::kDescriptor, role::kWaitIn, role::kWaitOut, role::kValue) \
    X(reserve_encaps_signals, int, (int a, struct hlthunk_sig_res_in *b, struct hlthunk_sig_res_out *c), (a, b, c), status, true, role::kDescriptor, role::in<hlthunk_sig_res_in>(), role::noise<hlthunk_sig_res_out>()) \
    X(unreserve_encaps_signals, int, (int a, struct reserve_sig_handle *b, uint32_t *c), (a, b, c), status, true, role::kDescriptor, role::in<reserve_sig_handle>(), role::noise<uint32_t>()) \
    X(wait_for_reserved_encaps_signals, int, (int a, struct hlthunk_wait_in *b, struct hlthunk_wait_out *c), (a, b, c), status, true, role::kDescriptor, role::kWaitIn, role::kWaitOut) \
    X(wait_for_reserved_encaps_collective_signals, int, (int a, struct hlthunk_wait_in *b, struct hlthunk_wait_out *c), (a, b, c), status, true, role::kDescriptor, role::kWaitIn, role::kWaitOut) \
    X(cs_flush_pci_hbw_writes, int, (int a), (a), status, true, role::kDescriptor) \
    X(engine_cores_set_mode, int, (int a, const uint32_t *b, uint32_t c, uint32_t d), (a, b, c, d), status, true, role::kDescriptor, role::array(Role::in, 4, 2), role::kValue, role::kValue) \
    X(engines_command, int, (int a, const uint32_t *b, uint32_t c, enum hl_engine_command d), (a, b, c, d), status, true, role::kDescriptor, role::array(Role::in, 4, 2), role::kValue, role::kValue) \
    X(wait_for_interrupt, int, (int a, void *b, uint64_t c, uint32_t d, uint64_t e, uint32_t *f), (a, b, c, d, e, f), status, true, role::kDescriptor, role::host(0xFF), role::kValue, role::kValue, role::kValue, role::kStatus) \
    X(wait_for_interrupt_with_timestamp, int, (int a, void *b, uint64_t c, uint32_t d, uint64_t e, uint32_t *f, uint64_t *g), (a, b, c, d, e, f, g), status, true, role::kDescriptor, role::host(0xFF), role::kValue, role::kValue, role::kValue, role::kStatus, role::kStamp) \
    X(wait_for_interrupt_by_handle, int, (int a, uint64_t b, uint64_t c, uint64_t d, uint32_t e, uint64_t f, uint32_t *g), (a, b, c, d, e, f, g), status, true, role::kDescriptor, role::kBuffer, role::kValue, role::kValue, role::kValue, role::kValue, role::kStatus) \
    X(wait_for_interrupt_by_handle_with_timestamp, int, (int a, uint64_t b, uint64_t c, uint64_t d, uint32_t e, uint64_t f, uint32_t *g, uint64_t *h), (a, b, c, d, e, f, g, h), status, true, role::kDescriptor, role::kBuffer, role::kValue, role::kValue, role::kValue, role::kValue, role::kStatus, role::kStamp) \
    X(register_timestamp_interrupt, int, (int a, uint32_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g), (a, b, c, d, e, f, g), status, true, role::kDescriptor, role::kValue, role::kBuffer, role::kValue, role::kValue, role::kBuffer, role::kValue) \
    X(notifier_create, int, (int a), (a), notifier, true, role::kDescriptor) \
    X(notifier_release, int, (int a, int b), (a, b), status, true, role::kDescriptor, role::kNotifier) \
    X(notifier_recv, int, (int a, int b, uint64_t *c, uint64_t *d, uint32_t e, uint32_t f), (a, b, c, d, e, f), status, true, role::kDescriptor, role::kNotifier, role::noise<uint64_t>(), role::noise<uint64_t>(), role::kValue, role::kValue) \
    X(debug, int, (int a, struct hl_debug_args *b), (a, b), status, true, role::kDescriptor, role::special<hl_debug_args>(Role::debug_args)) \
    X(debugfs_open, int, (int a, struct hlthunk_debugfs *b), (a, b), status, false, role::kDescriptor, role::noise<hlthunk_debugfs>()) \
    X(debugfs_read, int, (struct hlthunk_debugfs *a, uint64_t b, uint32_t *c), (a, b, c), status, false, role::in<hlthunk_debugfs>(), role::kValue, role::noise<uint32_t>()) \
    X(debugfs_write, int, (struct hlthunk_debugfs *a, uint64_t b, uint32_t c), (a, b, c), status, false, role::in<hlthunk_debugfs>(), role::kValue, role::kValue) \
    X(debugfs_close, int, (struct hlthunk_debugfs *a), (a), status, false, role::in<hlthunk_debugfs>()) \
    X(profiler_start, int, (int a), (a), status, false, role::kDescriptor) \
    X(profiler_stop, int, (int a), (a), status, false, role::kDescriptor) \
    X(profiler_get_trace, int, (int a, void *b, uint64_t *c, uint64_t *d), (a, b, c, d), status, false, role::kDescriptor, role::kOpaque, role::noise<uint64_t>(), role::noise<uint64_t>()) \
    X(profiler_destroy, void, (void), (), nothing, false, role::kValue) \
    X(deprecated_func1, int, (int a, uint64_t b, uint64_t c, uint32_t *d, uint64_t *e), (a, b, c, d, e), status, false, role::kDescriptor, role::kSequence, role::kValue, role::noise<uint32_t>(), role::kStamp) \
    X(deprecated_func2, int, (int a, uint32_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g), (a, b, c, d, e, f, g), status, false, role::kDescriptor) \
    X(deprecated_func3, int, (int a, uint32_t b, uint64_t *c), (a, b, c), status, false, role::kDescriptor, role::kValue, role::kOutBuffer) \
    GAUDI_RECORD_NEWER_CALLS(X)

// Functions of newer libraries. Only their names are public: up to six words are handed on and stored as they are.
#define GAUDI_RECORD_NEWER_CALL(X, name) \
    X(name, uint64_t, (uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f), (a, b, c, d, e, f), passing, false, role::kValue)
#define GAUDI_RECORD_NEWER_CALLS(X) \
    GAUDI_RECORD_NEWER_CALL(X, get_device_index_from_module_id) \
    GAUDI_RECORD_NEWER_CALL(X, get_device_status_info_telemetry) \
    GAUDI_RECORD_NEWER_CALL(X, get_time_sync_per_die_info) \
    GAUDI_RECORD_NEWER_CALL(X, get_mac_addr_info) \
    GAUDI_RECORD_NEWER_CALL(X, get_dev_info_signed) \
    GAUDI_RECORD_NEWER_CALL(X, device_memory_read_block_experimental)
// clang-format on

/// The position of each function in kCalls, and its number in the file.
enum class Function : std::uint16_t {
#define GAUDI_RECORD_ENUMERATOR(name, ...) name,
    GAUDI_RECORD_CALLS(GAUDI_RECORD_ENUMERATOR)
#undef GAUDI_RECORD_ENUMERATOR
};

inline constexpr Call kCalls[] = {
#define GAUDI_RECORD_CALL(name, result, parameters, arguments, answer, replayed, ...)                                  \
    {#name, Answer::answer, replayed, arity_of(static_cast<result(*) parameters>(nullptr)), {__VA_ARGS__}},
    GAUDI_RECORD_CALLS(GAUDI_RECORD_CALL)
#undef GAUDI_RECORD_CALL
};
inline constexpr std::size_t kCallCount = sizeof kCalls / sizeof kCalls[0];
inline constexpr std::size_t kNewerCalls = 6;
static_assert(kCallCount == 100 + kNewerCalls, "libhl-thunk exports 100 functions");

} // namespace gaudi::record
