// SPDX-License-Identifier: BSD-3-Clause
#include "recorded_call.h"

#include "nodes.h"
#include "submission.h"
#include "writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi::record {
namespace {

template <class T = void>
const T *pointer(std::uint64_t word) {
    return reinterpret_cast<const T *>(word);
}

/// Calls that programs repeat for each copy, or to watch the card: too frequent for a system call of the recorder.
bool is_frequent(Function function) {
    switch (function) {
    case Function::close:
    case Function::get_device_id_from_fd:
    case Function::get_device_name_from_fd:
    case Function::get_pci_bus_id_from_fd:
    case Function::get_hw_ip_info:
    case Function::device_memory_alloc:
    case Function::device_memory_free:
    case Function::device_memory_map:
    case Function::host_memory_map:
    case Function::host_memory_map_flags:
    case Function::memory_unmap:
    case Function::device_memory_export_dmabuf_fd:
    case Function::device_mapped_memory_export_dmabuf_fd:
    case Function::request_command_buffer:
    case Function::request_mapped_command_buffer:
    case Function::notifier_create:
        return false;
    default:
        return true;
    }
}

std::size_t event_record_size(std::uint64_t id) {
    switch (id) {
    case HLTHUNK_OPEN_DEV:
        return sizeof(hlthunk_event_record_open_dev_time);
    case HLTHUNK_CS_TIMEOUT:
        return sizeof(hlthunk_event_record_cs_timeout);
    case HLTHUNK_RAZWI_EVENT:
        return sizeof(hlthunk_event_record_razwi_event);
    case HLTHUNK_UNDEFINED_OPCODE:
        return sizeof(hlthunk_event_record_undefined_opcode);
    case HLTHUNK_HW_ERR_OPCODE:
        return sizeof(hlthunk_event_record_critical_hw_err);
    case HLTHUNK_FW_ERR_OPCODE:
        return sizeof(hlthunk_event_record_critical_fw_err);
    default:
        return 0;
    }
}

} // namespace

constinit thread_local bool Inside::t_inside = false;

RecordedCall::RecordedCall(Function function, std::span<const std::uint64_t> arguments) noexcept
    : m_function(function), m_arguments(arguments) {
    if (!arguments.empty() && description().arguments[0].role == Role::descriptor)
        m_node = node_of(static_cast<int>(arguments[0]), is_frequent(function));
    for (std::size_t i = 0; i < arguments.size(); ++i)
        store_in(i, description().arguments[i]);
    // Before the call: as soon as the driver has unmapped it, another thread may get the address for a new mapping.
    if (function == Function::memory_unmap)
        m_unmapped = take_host_range(m_node, arguments[1]);
    m_start_ns = now_ns();
}

std::size_t RecordedCall::length_of(const Argument &argument) const {
    if (argument.count == 0xFF)
        return argument.size;
    const std::uint64_t count = std::min<std::uint64_t>(m_arguments[argument.count], kLongest);
    return argument.size * static_cast<std::size_t>(count);
}

void RecordedCall::add(PieceKind kind, std::size_t argument, const void *bytes, std::size_t length) noexcept {
    length = std::min(length, kLongest);
    if (!bytes || m_used + piece_size(length) > kRoom)
        return;
    PieceWriter(m_room + m_used)
        .add(kind, static_cast<std::uint16_t>(argument), reinterpret_cast<std::uint64_t>(bytes), bytes, length);
    m_used += piece_size(length);
    ++m_pieces;
}

/// Reads only what libhl-thunk reads too.
void RecordedCall::store_in(std::size_t position, const Argument &argument) noexcept {
    const std::uint64_t word = m_arguments[position];
    if (word == 0)
        return;
    switch (argument.role) {
    case Role::name:
        add(PieceKind::in, position, pointer(word), ::strnlen(pointer<char>(word), 64));
        return;
    case Role::in:
    case Role::in_out:
        // The driver refuses long arrays unread, so that their memory need not exist.
        if (argument.count == 0xFF || m_arguments[argument.count] <= kLongest / argument.size)
            add(PieceKind::in, position, pointer(word), length_of(argument));
        return;
    case Role::debug_args:
    case Role::info_args:
    case Role::page_fault:
        add(PieceKind::in, position, pointer(word), length_of(argument));
        return;
    case Role::cs_in: {
        const auto &in = *pointer<hlthunk_cs_in>(word);
        add(PieceKind::in, position, &in, sizeof in);
        store_submission(m_node, in.chunks_restore, in.num_chunks_restore, in.chunks_execute, in.num_chunks_execute);
        return;
    }
    case Role::signal_in: {
        const auto &in = *pointer<hlthunk_signal_in>(word);
        add(PieceKind::in, position, &in, sizeof in);
        store_submission(m_node, in.chunks_restore, in.num_chunks_restore, nullptr, 0);
        return;
    }
    case Role::wait_in:
        add(PieceKind::in, position, pointer(word), sizeof(hlthunk_wait_in));
        store_wait_in(*pointer<hlthunk_wait_in>(word));
        return;
    case Role::multi_in: {
        const auto &in = *pointer<hlthunk_wait_multi_cs_in>(word);
        add(PieceKind::in, position, &in, sizeof in);
        add(PieceKind::in, position + 8, in.seq, std::min<std::size_t>(in.seq_len, 32) * sizeof *in.seq);
        return;
    }
    default:
        return;
    }
}

void RecordedCall::store_wait_in(const hlthunk_wait_in &in) noexcept {
    store_submission(m_node, in.chunks_restore, in.num_chunks_restore, nullptr, 0);
    if (in.num_wait_for_signal == 0 || !in.hlthunk_wait_for_signal)
        return;
    const auto *data = reinterpret_cast<const hlthunk_wait_for_signal_data *>(in.hlthunk_wait_for_signal);
    add(PieceKind::in, 8, data, sizeof *data);
    if (m_function == Function::wait_for_signal || m_function == Function::wait_for_signal_timeout)
        add(PieceKind::in, 9, data->signal_seq_arr,
            std::min<std::size_t>(data->signal_seq_nr, 32) * sizeof(std::uint64_t));
}

void RecordedCall::store_out(std::size_t position, const Argument &argument) noexcept {
    const std::uint64_t word = m_arguments[position];
    if (word == 0)
        return;
    switch (argument.role) {
    case Role::out:
    case Role::noise:
    case Role::in_out:
    case Role::out_buffer:
    case Role::out_address:
    case Role::out_status:
    case Role::cs_out:
    case Role::page_fault:
        add(PieceKind::out, position, pointer(word), length_of(argument));
        return;
    case Role::out_name:
        add(PieceKind::out, position, pointer(word), ::strnlen(pointer<char>(word), length_of(argument)));
        return;
    case Role::event_record:
        add(PieceKind::out, position, pointer(word), event_record_size(m_arguments[position - 1]));
        return;
    case Role::info_args: {
        const auto &args = *pointer<hl_info_args>(word);
        add(PieceKind::out, position, pointer(args.return_pointer), args.return_size);
        return;
    }
    default:
        return;
    }
}

/// Whether the call has filled in what its arguments point to.
bool RecordedCall::succeeded(std::uint64_t result) const {
    const auto code = static_cast<int>(result);
    switch (description().answer) {
    case Answer::handle:
    case Answer::address:
    case Answer::text:
        return result != 0;
    case Answer::passing:
    case Answer::nothing:
        return true;
    default:
        return code >= 0 || code == -ETIMEDOUT || code == -EIO; // a wait that ends so has a status
    }
}

/// Keeps what later submissions need: host mappings, and the node behind a descriptor.
void RecordedCall::follow_mappings(std::uint64_t result) noexcept {
    switch (m_function) {
    case Function::host_memory_map:
    case Function::host_memory_map_flags:
        add_host_range(m_node, result, {pointer<char>(m_arguments[1]), m_arguments[3]});
        return;
    case Function::close:
        forget_node(static_cast<int>(m_arguments[0]));
        return;
    case Function::open:
    case Function::open_by_module_id:
        m_node = node_of(static_cast<int>(result), false);
        remove_host_ranges(m_node);
        return;
    default:
        if (description().answer == Answer::descriptor)
            m_node = node_of(static_cast<int>(result), false);
    }
}

void RecordedCall::finish(std::uint64_t result, int error) noexcept {
    const std::uint64_t end_ns = now_ns();
    const bool filled = succeeded(result);
    if (filled) {
        follow_mappings(result);
        for (std::size_t i = 0; i < m_arguments.size(); ++i)
            store_out(i, description().arguments[i]);
        if (description().answer == Answer::text)
            add(PieceKind::returned, 0, pointer(result), ::strnlen(pointer<char>(result), 256));
    } else if (m_unmapped.host) {
        add_host_range(m_node, m_arguments[1], m_unmapped);
    }
    const std::size_t words = m_arguments.size() * sizeof(std::uint64_t);
    Record *record = reserve(sizeof(Record) + words + m_used, Kind::call);
    if (!record)
        return;
    record->function = static_cast<std::uint16_t>(m_function);
    record->start_ns = m_start_ns;
    record->end_ns = end_ns;
    record->result = result;
    record->node = m_node;
    record->error = error;
    record->arguments = static_cast<std::uint16_t>(m_arguments.size());
    record->pieces = m_pieces;
    char *at = reinterpret_cast<char *>(record + 1);
    if (words != 0)
        std::memcpy(at, m_arguments.data(), words);
    if (m_used != 0)
        std::memcpy(at + words, m_room, m_used);
    commit(*record);
}

} // namespace gaudi::record
