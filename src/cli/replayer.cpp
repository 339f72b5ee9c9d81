// SPDX-License-Identifier: BSD-3-Clause
#include "replayer.h"

#include "os/format.h"
#include "replay_compare.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace gaudi::cli {
namespace {

using record::Answer;
using record::Function;
using record::PieceKind;

constexpr auto kOpenPatience = std::chrono::seconds(5);

bool opens_card(Function function) { return function == Function::open || function == Function::open_by_module_id; }

bool succeeded(const RecordedCall &call) { return is_success(description_of(call).answer, call.head->result); }

} // namespace

Replayer::Replayer(const ReplayLibrary &library, const Recording &recording)
    : m_library(library), m_recording(recording), m_null(::open("/dev/null", O_RDWR | O_CLOEXEC)) {
    for (const RecordedCall *call : recording.calls()) {
        if (!call->function || !succeeded(*call))
            continue;
        if (opens_card(*call->function))
            m_opens.emplace_back(call->head->start_ns, call->head->end_ns);
        const RecordedPiece *info =
            *call->function == Function::get_hw_ip_info ? call->find(PieceKind::out, 1) : nullptr;
        if (info && info->bytes.size() >= sizeof(hlthunk_hw_ip_info)) {
            hlthunk_hw_ip_info known{};
            std::memcpy(&known, info->bytes.data(), sizeof known);
            m_modules[call->head->node] = known.module_id;
        }
    }
}

Replayer::~Replayer() {
    while (!m_processes.empty())
        end_process(m_processes.begin()->first);
    ::close(m_null);
}

// ---- descriptors ------------------------------------------------------------------------------------------------

/// By its number in the recorded process; a duplicate, or one that was inherited or passed, by its node.
ReplayDescriptor *Replayer::find_descriptor(const RecordedCall &call) {
    Process &process = m_processes[call.head->process];
    const auto number = static_cast<int>(call.arguments[0]);
    const std::uint64_t node = call.head->node;
    if (const auto known = process.find(number); known != process.end()) {
        if (known->second.node == node)
            return &known->second;
        drop(known->second); // the program closed it by close(2), and the number is another file's
        process.erase(known);
    }
    // A library may have files of its own behind a node: what it refuses as no descriptor of a card is none.
    const bool refused =
        !succeeded(call) && (call.head->error == ENOTTY || static_cast<int>(call.head->result) == -ENOTTY);
    if (node == 0 || refused)
        return nullptr;
    for (auto *candidates : {&process, static_cast<Process *>(nullptr)}) {
        for (auto &[other, descriptors] : m_processes) {
            if (candidates && candidates != &descriptors)
                continue;
            for (auto &[of, descriptor] : descriptors)
                if (descriptor.node == node) {
                    ReplayDescriptor copy = descriptor;
                    copy.fd = ::fcntl(descriptor.fd, F_DUPFD_CLOEXEC, 0);
                    return &(process[number] = std::move(copy));
                }
        }
    }
    return nullptr;
}

void Replayer::add_descriptor(const RecordedCall &call, int fd) {
    Process &process = m_processes[call.head->process];
    const auto number = static_cast<int>(call.head->result);
    if (const auto known = process.find(number); known != process.end())
        drop(known->second);
    process[number] = {fd, call.head->node, std::make_shared<ReplayContext>()};
}

void Replayer::drop(ReplayDescriptor &descriptor) {
    settle(descriptor.fd, *descriptor.context);
    if (descriptor.context.use_count() == 1)
        descriptor.context->close_exports();
    m_library.make(Function::close, descriptor.fd);
}

/// The recording shows that nobody had the card open any more.
void Replayer::drop_node(std::uint64_t node) {
    for (auto &[of, process] : m_processes)
        for (auto at = process.begin(); at != process.end();) {
            if (at->second.node != node) {
                ++at;
                continue;
            }
            drop(at->second);
            at = process.erase(at);
        }
}

void Replayer::end_process(std::uint32_t process) {
    const auto ended = m_processes.find(process);
    if (ended == m_processes.end())
        return;
    for (auto &[number, descriptor] : ended->second)
        drop(descriptor);
    m_processes.erase(ended);
}

/// Of several free cards the program may have got another one than the replay does: threads race for them.
ReplayLibrary::Answer Replayer::open_recorded_card(const RecordedCall &call, ReplayLibrary::Answer got) {
    const auto module = m_modules.find(call.head->node);
    const bool any = *call.function == Function::open && call.arguments[1] == 0;
    if (!any || module == m_modules.end() || static_cast<int>(got.result) < 0)
        return got;
    hlthunk_hw_ip_info info{};
    m_library.make(Function::get_hw_ip_info, got.result, reinterpret_cast<std::uint64_t>(&info));
    if (info.module_id == module->second)
        return got;
    m_library.make(Function::close, got.result);
    const ReplayLibrary::Answer again = m_library.make(Function::open_by_module_id, module->second);
    return static_cast<int>(again.result) >= 0 ? again : m_library.call(*call.function, m_words);
}

/// Whether another open succeeded at the same time: which of the two came first is not in the recording.
bool Replayer::overlaps_an_open(const RecordedCall &call) const {
    return std::any_of(m_opens.begin(), m_opens.end(), [&](const auto &open) {
        return open.first <= call.head->end_ns && open.second >= call.head->start_ns;
    });
}

// ---- one call ---------------------------------------------------------------------------------------------------

/// Waits for the submissions of a context: the program knew from its completion flags that they had ended.
void Replayer::settle(int fd, ReplayContext &context) {
    for (const std::uint64_t sequence : context.running) {
        std::uint32_t status = 0;
        m_library.make(Function::wait_for_cs, fd, sequence, 10'000'000, reinterpret_cast<std::uint64_t>(&status));
    }
    context.running.clear();
    context.fetched.clear();
}

std::string Replayer::compare(const RecordedCall &call, const ReplayLibrary::Answer &got) const {
    const bool raced = opens_card(*call.function) && !succeeded(call) && overlaps_an_open(call);
    if (raced)
        return {};
    return find_difference(call, got, [&](std::size_t position) {
        const std::vector<std::uint64_t> &memory = m_memory[position];
        return Written(reinterpret_cast<const char *>(memory.data()), memory.size() * sizeof memory[0]);
    });
}

Replayer::Outcome Replayer::play(const RecordedCall &call) {
    if (!call.function)
        return {false, "this version of ucx_gaudi does not know the function"};
    const record::Call &description = description_of(call);
    if (!description.replayed)
        return {false, "calls of this function are not replayed"};
    if (!m_library.has(*call.function))
        return {false, os::format("{} has no such function", m_library.path())};
    const bool on_descriptor = description.arguments[0].role == record::Role::descriptor;
    ReplayDescriptor *descriptor = on_descriptor ? find_descriptor(call) : nullptr;
    if (on_descriptor && !descriptor && (succeeded(call) || *call.function == Function::close))
        return {false, "its descriptor was not opened by a recorded call"};
    if (opens_card(*call.function) && succeeded(call))
        drop_node(call.head->node);
    if (std::optional<std::string> reason = prepare(call, descriptor))
        return {false, std::move(*reason)};

    const auto began = std::chrono::steady_clock::now();
    ReplayLibrary::Answer got = m_library.call(*call.function, m_words);
    while (description.answer == Answer::descriptor && succeeded(call) && is_again(description.answer, got) &&
           std::chrono::steady_clock::now() - began < kOpenPatience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1)); // the card is being reset
        got = m_library.call(*call.function, m_words);
    }
    if (opens_card(*call.function) && succeeded(call))
        got = open_recorded_card(call, got);
    Outcome outcome{true, compare(call, got)};
    if (!is_success(description.answer, got.result))
        return outcome;
    if (succeeded(call))
        follow(call, got, descriptor);
    else
        undo(call, got, descriptor);
    return outcome;
}

// ---- after a call -----------------------------------------------------------------------------------------------

void Replayer::follow(const RecordedCall &call, const ReplayLibrary::Answer &got, ReplayDescriptor *descriptor) {
    switch (description_of(call).answer) {
    case Answer::descriptor:
        add_descriptor(call, static_cast<int>(got.result));
        return;
    case Answer::text:
        m_library.make(Function::free, got.result);
        return;
    default:
        break;
    }
    if (!descriptor)
        return;
    ReplayContext &context = *descriptor->context;
    switch (*call.function) {
    case Function::device_memory_alloc:
        context.memory.add(call.head->result, {got.result, call.arguments[1]});
        return;
    case Function::device_memory_free:
        context.memory.remove_oldest(call.arguments[1]);
        return;
    case Function::device_memory_map: {
        const DeviceMemory *memory = context.memory.find(call.arguments[1]);
        context.mappings.add(call.head->result, {got.result, memory ? memory->size : 0, 0, nullptr, {}});
        return;
    }
    case Function::host_memory_map:
    case Function::host_memory_map_flags:
        context.mappings.add(call.head->result, {got.result, call.arguments[3], call.arguments[1], m_host, {}});
        return;
    case Function::memory_unmap:
        context.mappings.remove_oldest(call.arguments[1]);
        return;
    case Function::device_memory_export_dmabuf_fd:
    case Function::device_mapped_memory_export_dmabuf_fd:
        if (ReplayMapping *mapping = context.mappings.find(call.arguments[1]))
            mapping->exports.push_back(static_cast<int>(got.result));
        else
            ::close(static_cast<int>(got.result));
        return;
    case Function::notifier_create:
        m_notifiers[{call.head->process, static_cast<int>(call.head->result)}] = static_cast<int>(got.result);
        return;
    case Function::destroy_command_buffer:
        context.buffers.remove_oldest(call.arguments[1]);
        return;
    case Function::close:
    case Function::notifier_release:
        forget(call, descriptor);
        return;
    default:
        follow_written(call, *descriptor);
    }
}

/// The call closed a descriptor.
void Replayer::forget(const RecordedCall &call, const ReplayDescriptor *descriptor) {
    if (*call.function == Function::notifier_release) {
        m_notifiers.erase({call.head->process, static_cast<int>(call.arguments[1])});
    } else if (descriptor) {
        if (descriptor->context.use_count() == 1)
            descriptor->context->close_exports();
        m_processes[call.head->process].erase(static_cast<int>(call.arguments[0]));
    }
}

/// Handles, addresses, sequence numbers and bus ids that the call returned through pointers.
void Replayer::follow_written(const RecordedCall &call, ReplayDescriptor &descriptor) {
    ReplayContext &context = *descriptor.context;
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
        const RecordedPiece *piece = call.find(PieceKind::out, static_cast<unsigned>(i));
        if (!piece || m_memory[i].empty())
            continue;
        std::uint64_t recorded = 0;
        std::memcpy(&recorded, piece->bytes.data(), std::min(piece->bytes.size(), sizeof recorded));
        switch (description_of(call).arguments[i].role) {
        case record::Role::out_buffer:
            context.buffers.add(recorded, m_memory[i][0]);
            break;
        case record::Role::out_address:
            context.mappings.add(recorded, {m_memory[i][0], 1, 0, nullptr, {}});
            break;
        case record::Role::cs_out:
            context.sequences[recorded] = m_memory[i][0];
            context.running.push_back(m_memory[i][0]);
            break;
        case record::Role::out_name:
            m_bus_ids[std::string(piece->bytes.begin(), piece->bytes.end())] =
                reinterpret_cast<const char *>(m_memory[i].data());
            break;
        default:
            break;
        }
    }
}

/// The call failed in the recording: what it made here must not stay.
void Replayer::undo(const RecordedCall &call, const ReplayLibrary::Answer &got, const ReplayDescriptor *descriptor) {
    const int fd = descriptor ? descriptor->fd : -1;
    switch (description_of(call).answer) {
    case Answer::descriptor:
        m_library.make(Function::close, got.result);
        return;
    case Answer::dmabuf:
        ::close(static_cast<int>(got.result));
        return;
    case Answer::notifier:
        m_library.make(Function::notifier_release, fd, got.result);
        return;
    case Answer::handle:
        m_library.make(Function::device_memory_free, fd, got.result);
        return;
    case Answer::address:
        m_library.make(Function::memory_unmap, fd, got.result);
        return;
    default:
        break;
    }
    // The number of a closed descriptor may be another file's by now.
    if (*call.function == Function::close || *call.function == Function::notifier_release)
        forget(call, descriptor);
}

} // namespace gaudi::cli
