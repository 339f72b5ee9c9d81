// SPDX-License-Identifier: BSD-3-Clause
// The arguments of a call of the replay.
#include "record/packets.h"
#include "replay_compare.h"
#include "replayer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi::cli {
namespace {

using record::Function;
using record::PieceKind;
using record::Role;

constexpr std::size_t kMostBytes = 1 << 20; // for what one argument points to
constexpr std::uint64_t kPatienceUs = 60'000'000, kShortPatienceUs = 5'000'000;
constexpr std::uint64_t kPatienceS = 60;
constexpr std::uint32_t kMostSequences = 32; // that one call waits for
constexpr std::size_t kSpare = 10; // memory behind that of the eight arguments: restore chunks, execute chunks, others

std::uint64_t word(const void *pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

bool ends_something(Function function) {
    return function == Function::memory_unmap || function == Function::device_memory_free ||
           function == Function::close || function == Function::destroy_command_buffer;
}

template <class T>
T *structure(char *memory) {
    return reinterpret_cast<T *>(memory);
}

} // namespace

/// Zeroed memory in the given slot, with the contents of a piece.
char *Replayer::provide(std::size_t slot, std::size_t size, const RecordedPiece *contents) {
    size = std::max<std::size_t>(contents ? std::max(size, contents->bytes.size()) : size, 8);
    m_memory[slot].assign((size + 7) / 8, 0);
    char *memory = reinterpret_cast<char *>(m_memory[slot].data());
    if (contents)
        std::memcpy(memory, contents->bytes.data(), contents->bytes.size());
    return memory;
}

std::uint64_t Replayer::translate_sequence(ReplayContext &context, std::uint64_t recorded) const {
    const auto known = context.sequences.find(recorded);
    return known != context.sequences.end() && known->second ? *known->second : recorded;
}

/// Fills m_words; returns why the call cannot be made, if it cannot.
std::optional<std::string> Replayer::prepare(const RecordedCall &call, const ReplayDescriptor *descriptor) {
    const record::Call &description = description_of(call);
    for (auto &memory : m_memory)
        memory.clear();
    m_host.reset();
    ReplayContext &context = descriptor ? *descriptor->context : m_no_context;
    if (descriptor && ends_something(*call.function))
        settle(descriptor->fd, context);
    std::copy(call.arguments.begin(), call.arguments.end(), m_words.begin());
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
        const Role role = description.arguments[i].role;
        if (role == Role::descriptor) {
            m_words[i] = static_cast<std::uint64_t>(descriptor ? descriptor->fd : call.head->node == 0 ? -1 : m_null);
        } else if (role == Role::sequence) {
            const auto known = context.sequences.find(call.arguments[i]);
            if (known != context.sequences.end() && !known->second)
                return "its submission was not replayed";
            m_words[i] = translate_sequence(context, call.arguments[i]);
        } else if ((role == Role::cs_in || role == Role::signal_in || role == Role::wait_in) &&
                   call.arguments[i] != 0) {
            if (descriptor && call.head->result == 0 && !call.packets.empty()) {
                const bool reused =
                    std::any_of(call.packets.begin(), call.packets.end(), [&](const RecordedPiece &piece) {
                        return std::any_of(context.fetched.begin(), context.fetched.end(), [&](const auto &range) {
                            return piece.kind == PieceKind::packets && piece.address < range.first + range.second &&
                                   range.first < piece.address + piece.bytes.size();
                        });
                    });
                if (reused) // the card may still read the packets that are in the way
                    settle(descriptor->fd, context);
            }
            if (!provide_submission(call, i, context)) {
                for (std::size_t out = i; out < call.arguments.size(); ++out) // waits for it cannot be replayed either
                    if (const RecordedPiece *piece = call.find(PieceKind::out, static_cast<unsigned>(out));
                        piece && description.arguments[out].role == Role::cs_out && piece->bytes.size() >= 8) {
                        std::uint64_t sequence = 0;
                        std::memcpy(&sequence, piece->bytes.data(), sizeof sequence);
                        context.sequences[sequence] = std::nullopt;
                    }
                return "its packets are not in the recording";
            }
        } else {
            prepare_word(call, i, context);
        }
    }
    if (description.arguments[1].role == Role::host && !m_host && *call.function != Function::wait_for_interrupt &&
        *call.function != Function::wait_for_interrupt_with_timestamp)
        return "there is not enough host memory";
    limit_time(call);
    return {};
}

void Replayer::prepare_word(const RecordedCall &call, std::size_t i, ReplayContext &context) {
    const record::Argument &argument = description_of(call).arguments[i];
    const std::uint64_t recorded = call.arguments[i];
    const RecordedPiece *in = call.find(PieceKind::in, static_cast<unsigned>(i));
    const auto allocate = [&](std::size_t size) { m_words[i] = recorded != 0 ? word(provide(i, size, in)) : 0; };
    switch (argument.role) {
    case Role::notifier: {
        const auto known = m_notifiers.find({call.head->process, static_cast<int>(recorded)});
        const int unknown = *call.function == Function::notifier_release ? -1 : m_null; // a release closes it
        m_words[i] = static_cast<std::uint64_t>(known == m_notifiers.end() ? unknown : known->second);
        return;
    }
    case Role::handle:
        if (const DeviceMemory *memory = *call.function == Function::device_memory_free
                                             ? context.memory.find_oldest(recorded)
                                             : context.memory.find(recorded))
            m_words[i] = memory->handle;
        return;
    case Role::buffer:
        if (const std::uint64_t *buffer = context.buffers.find(recorded))
            m_words[i] = *buffer;
        return;
    case Role::address:
        m_words[i] = context.translate(recorded);
        if (*call.function == Function::memory_unmap)
            if (ReplayMapping *mapping = context.mappings.find_oldest(recorded)) {
                m_words[i] = mapping->address;
                // The driver unmaps no memory with a living dma-buf, and programs end those by close(2).
                for (const int exported : mapping->exports)
                    if (call.head->result == 0)
                        ::close(exported);
                if (call.head->result == 0)
                    mapping->exports.clear();
            }
        return;
    case Role::hint:
        // Without a wish of the program the recorded address is the replay's wish: packets can then stay as they are.
        if (recorded == 0)
            m_words[i] = call.head->result;
        return;
    case Role::host:
        if (argument.count != 0xFF) {
            m_host = HostCopy::make(recorded, call.arguments[argument.count],
                                    call.head->result != 0 || call.head->error != EFAULT);
            m_words[i] = m_host ? word(m_host->data()) : 0;
        } else if (char *host = context.find_host_pointer(recorded)) {
            m_words[i] = word(host);
        } else if (recorded != 0) { // memory that no call has mapped: it holds what the program waited for
            m_words[i] = word(provide(i, 8));
            if (recorded_wait_status(call) == std::optional<std::uint32_t>(HL_WAIT_CS_STATUS_COMPLETED))
                m_memory[i][0] = call.arguments[2];
        }
        return;
    case Role::name: {
        allocate(in ? in->bytes.size() + 1 : 1); // a damaged recording may lack the name: an empty one takes its place
        const auto known = in ? m_bus_ids.find(std::string(in->bytes.begin(), in->bytes.end())) : m_bus_ids.end();
        if (known != m_bus_ids.end()) {
            std::strcpy(provide(i, known->second.size() + 1), known->second.c_str());
            m_words[i] = word(m_memory[i].data());
        }
        return;
    }
    case Role::event_record:
        return allocate(512);
    case Role::page_fault:
        allocate(argument.size);
        m_words[i + 1] = std::min<std::uint64_t>(call.arguments[i + 1], 4096);
        if (recorded != 0)
            structure<hlthunk_page_fault_info>(reinterpret_cast<char *>(m_memory[i].data()))->mappings =
                structure<hlthunk_page_fault_mapping>(provide(kSpare, 4096 * sizeof(hlthunk_page_fault_mapping)));
        return;
    case Role::info_args:
        allocate(argument.size);
        if (recorded != 0) {
            auto *args = structure<hl_info_args>(reinterpret_cast<char *>(m_memory[i].data()));
            args->return_size = std::min<std::uint32_t>(args->return_size, kMostBytes);
            if (args->return_pointer != 0)
                args->return_pointer = word(provide(kSpare, args->return_size));
        }
        return;
    case Role::debug_args:
        allocate(argument.size);
        if (recorded != 0) {
            auto *args = structure<hl_debug_args>(reinterpret_cast<char *>(m_memory[i].data()));
            args->input_ptr = args->output_ptr = 0;
        }
        return;
    case Role::multi_in:
        allocate(argument.size);
        if (recorded != 0) {
            auto *args = structure<hlthunk_wait_multi_cs_in>(reinterpret_cast<char *>(m_memory[i].data()));
            args->timeout_us = std::min(args->timeout_us, kShortPatienceUs);
            args->seq = structure<std::uint64_t>(provide_sequences(call, kSpare, context));
            args->seq_len = std::min<std::uint32_t>(args->seq_len, kMostSequences);
        }
        return;
    case Role::in:
    case Role::in_out:
    case Role::out:
    case Role::noise:
    case Role::out_buffer:
    case Role::out_address:
    case Role::out_name:
    case Role::out_status:
    case Role::cs_out: {
        std::size_t size = std::max<std::size_t>(argument.size, 24);
        if (argument.count != 0xFF) {
            const auto most = static_cast<std::uint64_t>(kMostBytes / argument.size);
            const std::uint64_t count = std::min(call.arguments[argument.count], most);
            // The length of a name is an int, and the library must see a negative one as it was.
            if (argument.role != Role::out_name || static_cast<int>(call.arguments[argument.count]) >= 0)
                m_words[argument.count] = count;
            size = static_cast<std::size_t>(argument.size * count) + 1;
        }
        return allocate(size);
    }
    default:
        return;
    }
}

/// Where the recorded call ended with an answer, the replay gets more time than the program gave, but not for ever.
void Replayer::limit_time(const RecordedCall &call) {
    std::size_t position = 0;
    std::uint64_t most = kPatienceUs;
    switch (*call.function) {
    case Function::wait_for_cs:
    case Function::wait_for_cs_with_timestamp:
        position = 2;
        break;
    case Function::wait_for_interrupt:
    case Function::wait_for_interrupt_with_timestamp:
        position = 4;
        most = kShortPatienceUs;
        break;
    case Function::wait_for_interrupt_by_handle:
    case Function::wait_for_interrupt_by_handle_with_timestamp:
        position = 5;
        most = kShortPatienceUs;
        break;
    case Function::staged_command_submission_timeout:
        m_words[4] = std::min(m_words[4], kPatienceS);
        return;
    case Function::command_submission_timeout:
    case Function::signal_submission_timeout:
    case Function::wait_for_signal_timeout:
    case Function::wait_for_collective_signal_timeout:
        m_words[3] = std::min(m_words[3], kPatienceS);
        return;
    case Function::notifier_recv: {
        const RecordedPiece *count = call.find(PieceKind::out, 3);
        const bool came = count && count->bytes.size() >= 8 &&
                          std::any_of(count->bytes.begin(), count->bytes.end(), [](char byte) { return byte != 0; });
        m_words[5] = came ? 1000 : 0;
        return;
    }
    default:
        return;
    }
    m_words[position] = recorded_wait_status(call) == std::optional<std::uint32_t>(HL_WAIT_CS_STATUS_BUSY) ? 0 : most;
}

// ---- submissions ------------------------------------------------------------------------------------------------

/// The structure that describes a submission, with its chunks, and the packets where the card fetches them. False if
/// they are not in the recording.
bool Replayer::provide_submission(const RecordedCall &call, std::size_t position, ReplayContext &context) {
    const RecordedPiece *in = call.find(PieceKind::in, static_cast<unsigned>(position));
    if (!in || in->bytes.size() < description_of(call).arguments[position].size)
        return false;
    char *memory = provide(position, in->bytes.size(), in);
    m_words[position] = word(memory);
    const bool failed = call.head->result != 0;
    switch (description_of(call).arguments[position].role) {
    case Role::cs_in: {
        auto *submission = structure<hlthunk_cs_in>(memory);
        const bool restore = provide_chunks(call, kSpare, PieceKind::chunks_restore, context,
                                            submission->chunks_restore, submission->num_chunks_restore);
        const bool execute = provide_chunks(call, kSpare + 1, PieceKind::chunks_execute, context,
                                            submission->chunks_execute, submission->num_chunks_execute);
        if (!failed && !(restore && execute))
            return false;
        break;
    }
    case Role::signal_in:
        structure<hlthunk_signal_in>(memory)->chunks_restore = nullptr;
        structure<hlthunk_signal_in>(memory)->num_chunks_restore = 0;
        break;
    default: {
        auto *wait = structure<hlthunk_wait_in>(memory);
        wait->chunks_restore = nullptr;
        wait->num_chunks_restore = 0;
        wait->num_wait_for_signal = std::min(wait->num_wait_for_signal, 1u);
        if (!wait->hlthunk_wait_for_signal)
            break;
        // What a damaged recording lacks is zeros here.
        char *copy = provide(kSpare + 2, sizeof(hlthunk_wait_for_signal_data), call.find(PieceKind::in, 8));
        wait->hlthunk_wait_for_signal = structure<std::uint64_t>(copy);
        if (*call.function == Function::wait_for_signal || *call.function == Function::wait_for_signal_timeout) {
            auto *signal = structure<hlthunk_wait_for_signal_data>(copy);
            signal->signal_seq_nr = std::min<std::uint32_t>(signal->signal_seq_nr, kMostSequences);
            if (signal->signal_seq_arr)
                signal->signal_seq_arr = structure<std::uint64_t>(provide_sequences(call, kSpare + 3, context));
        }
        break;
    }
    }
    return place_packets(call, context) || failed;
}

/// Puts the recorded chunks in the place of the program's: `chunks` and `count` of a submission. False if the recording
/// has fewer than `count`; then zeroed chunks, or where the driver refuses so many, one, take their place.
bool Replayer::provide_chunks(const RecordedCall &call, std::size_t slot, PieceKind kind, ReplayContext &context,
                              void *&chunks, std::uint32_t count) {
    if (!chunks || count == 0 || count > HL_MAX_JOBS_PER_CS) {
        chunks = chunks ? provide(slot, sizeof(hl_cs_chunk)) : nullptr;
        return true;
    }
    const auto piece = std::find_if(call.packets.begin(), call.packets.end(),
                                    [&](const RecordedPiece &one) { return one.kind == kind; });
    const RecordedPiece *found = piece == call.packets.end() ? nullptr : &*piece;
    char *memory = provide(slot, count * sizeof(hl_cs_chunk), found);
    for (std::size_t i = 0; i < count; ++i) {
        hl_cs_chunk &chunk = structure<hl_cs_chunk>(memory)[i];
        if ((chunk.cs_chunk_flags & HL_CS_CHUNK_FLAGS_USER_ALLOC_CB) != 0)
            chunk.cb_handle = context.translate(chunk.cb_handle);
        else if (const std::uint64_t *buffer = context.buffers.find(chunk.cb_handle))
            chunk.cb_handle = *buffer;
    }
    chunks = memory;
    return found && found->bytes.size() >= count * sizeof(hl_cs_chunk);
}

/// The sequence numbers of a recorded array, as they are in the replay.
char *Replayer::provide_sequences(const RecordedCall &call, std::size_t slot, ReplayContext &context) {
    const RecordedPiece *piece = call.find(PieceKind::in, 9);
    char *memory = provide(slot, kMostSequences * sizeof(std::uint64_t), piece);
    for (std::size_t i = 0; piece && i < piece->bytes.size() / sizeof(std::uint64_t); ++i)
        m_memory[slot][i] = translate_sequence(context, m_memory[slot][i]);
    return memory;
}

/// Writes the packets to the host memory from which the card fetches them, with addresses of the replay.
bool Replayer::place_packets(const RecordedCall &call, ReplayContext &context) {
    bool complete = true;
    for (const RecordedPiece &piece : call.packets) {
        if (piece.kind != PieceKind::packets) {
            complete = complete && piece.kind != PieceKind::missing;
            continue;
        }
        char *host = context.find_host(piece.address, piece.bytes.size());
        if (!host) {
            complete = false;
            continue;
        }
        std::vector<char> bytes(piece.bytes.begin(), piece.bytes.end());
        record::for_each_packet(piece.bytes.data(), piece.bytes.size(),
                                [&](const record::Packet &packet, std::size_t at) {
                                    for (const bool first : {true, false}) {
                                        if (!packet.has_address(first))
                                            continue;
                                        char *place = bytes.data() + at + (first ? 8 : 16);
                                        std::uint64_t address = 0;
                                        std::memcpy(&address, place, sizeof address);
                                        address = context.translate(address);
                                        std::memcpy(place, &address, sizeof address);
                                    }
                                });
        std::memcpy(host, bytes.data(), bytes.size());
        context.fetched.emplace_back(piece.address, bytes.size());
    }
    return complete;
}

} // namespace gaudi::cli
