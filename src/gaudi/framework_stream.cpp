// SPDX-License-Identifier: BSD-3-Clause
#include "framework_stream.h"

#include "thunk/report.h"

#include <cerrno>

#include <fmt/format.h>

namespace gaudi {
namespace {

struct Answer {
    vendor::Status status;
    int code;
    const char *name;
};

#define GAUDI_FRAMEWORK_ANSWER(status, code)                                                                           \
    Answer { vendor::status, code, #status }
constexpr Answer kAnswers[] = {
    GAUDI_FRAMEWORK_ANSWER(synInvalidArgument, EINVAL),
    GAUDI_FRAMEWORK_ANSWER(synOutOfHostMemory, ENOMEM),
    GAUDI_FRAMEWORK_ANSWER(synOutOfDeviceMemory, ENOMEM),
    GAUDI_FRAMEWORK_ANSWER(synNoDeviceFound, ENODEV),
    GAUDI_FRAMEWORK_ANSWER(synDeviceReset, EIO),
    GAUDI_FRAMEWORK_ANSWER(synUnsupported, EOPNOTSUPP),
    GAUDI_FRAMEWORK_ANSWER(synBusy, EBUSY),
    GAUDI_FRAMEWORK_ANSWER(synAllResourcesTaken, EAGAIN),
    GAUDI_FRAMEWORK_ANSWER(synUnavailable, EAGAIN),
    GAUDI_FRAMEWORK_ANSWER(synFail, EIO),
    GAUDI_FRAMEWORK_ANSWER(synOutOfResources, EAGAIN),
    GAUDI_FRAMEWORK_ANSWER(synUninitialized, ENODEV),
    GAUDI_FRAMEWORK_ANSWER(synSynapseTerminated, ENODEV),
    GAUDI_FRAMEWORK_ANSWER(synInvalidEventHandle, EINVAL),
    GAUDI_FRAMEWORK_ANSWER(synMappingNotFound, EFAULT),
    GAUDI_FRAMEWORK_ANSWER(synTimeout, ETIMEDOUT),
};
#undef GAUDI_FRAMEWORK_ANSWER

tl::unexpected<Error> failure(vendor::Status status, const char *call, const std::string &args = {}) {
    for (const Answer &answer : kAnswers)
        if (answer.status == status)
            return tl::unexpected(
                thunk::make_error(answer.code, call, args, fmt::format("SynapseAI answered {}", answer.name)));
    return tl::unexpected(
        thunk::make_error(EIO, call, args, fmt::format("SynapseAI answered {}", static_cast<std::uint32_t>(status))));
}

Result<void> outcome(vendor::Status status, const char *call, const std::string &args = {}) {
    if (status != vendor::synSuccess)
        return failure(status, call, args);
    return {};
}

constexpr vendor::CopyDirection kDirection[kDirections] = {vendor::HOST_TO_DRAM, vendor::DRAM_TO_HOST,
                                                           vendor::DRAM_TO_DRAM};
static_assert(static_cast<unsigned>(Direction::down) == 0 && static_cast<unsigned>(Direction::up) == 1 &&
              static_cast<unsigned>(Direction::on_card) == 2);

} // namespace

Result<std::unique_ptr<FrameworkStream>> FrameworkStream::create(const Framework &framework, std::uint32_t device) {
    constexpr const char *name = "synStreamCreateGeneric";
    if (!framework.copies())
        return tl::unexpected(
            thunk::make_error(ENOSYS, name, {}, "the loaded SynapseAI lacks a function that copies need"));
    vendor::StreamHandle stream = nullptr;
    if (const vendor::Status status = framework.call().StreamCreateGeneric(&stream, device, 0);
        status != vendor::synSuccess)
        return failure(status, name, fmt::format("device {}", device));
    return std::unique_ptr<FrameworkStream>(new FrameworkStream(framework, device, stream));
}

FrameworkStream::~FrameworkStream() {
    if (m_abandoned.load(std::memory_order_acquire))
        return;
    // A stream at work would not be destroyed.
    if (m_used)
        thunk::release_or_report(
            [this] { return outcome(m_call.StreamSynchronize(m_stream), "synStreamSynchronize"); });
    for (const Mark &mark : m_marks)
        thunk::release_or_report([&] { return outcome(m_call.EventDestroy(mark.event), "synEventDestroy"); });
    for (vendor::EventHandle event : m_free)
        thunk::release_or_report([&] { return outcome(m_call.EventDestroy(event), "synEventDestroy"); });
    thunk::release_or_report([this] { return outcome(m_call.StreamDestroy(m_stream), "synStreamDestroy"); });
}

#define GAUDI_FRAMEWORK_UNLESS_ABANDONED(call)                                                                         \
    if (m_abandoned.load(std::memory_order_acquire))                                                                   \
        return tl::unexpected(thunk::make_error(ENODEV, call, {}, "SynapseAI has given the card back"));

void FrameworkStream::settle() {
    if (m_used && !m_abandoned.load(std::memory_order_acquire))
        (void)m_call.StreamSynchronize(m_stream);
}

Result<void> FrameworkStream::map_host(void *address, std::size_t length) {
    GAUDI_FRAMEWORK_UNLESS_ABANDONED("synHostMap")
    return outcome(m_call.HostMap(m_device, length, address), "synHostMap",
                   fmt::format("{}, {} bytes", address, length));
}

Result<void> FrameworkStream::unmap_host(void *address) {
    if (m_abandoned.load(std::memory_order_acquire))
        return {}; // it went with the card
    return outcome(m_call.HostUnmap(m_device, address), "synHostUnmap", fmt::format("{}", address));
}

Result<void> FrameworkStream::copy(Direction direction, std::uint64_t destination, std::uint64_t source,
                                   std::uint64_t length) {
    if (length == 0)
        return {};
    GAUDI_FRAMEWORK_UNLESS_ABANDONED("synMemCopyAsync")
    m_used = true;
    const vendor::Status status =
        m_call.MemCopyAsync(m_stream, source, length, destination, kDirection[static_cast<unsigned>(direction)]);
    if (status != vendor::synSuccess)
        return failure(status, "synMemCopyAsync", fmt::format("{:#x} to {:#x}, {} bytes", source, destination, length));
    return {};
}

Result<std::uint64_t> FrameworkStream::mark() {
    GAUDI_FRAMEWORK_UNLESS_ABANDONED("synEventRecord")
    if (m_free.empty()) {
        vendor::EventHandle event = nullptr;
        if (const vendor::Status status = m_call.EventCreate(&event, m_device, 0); status != vendor::synSuccess)
            return failure(status, "synEventCreate", fmt::format("device {}", m_device));
        m_free.push_back(event);
    }
    vendor::EventHandle event = m_free.back();
    if (const vendor::Status status = m_call.EventRecord(event, m_stream); status != vendor::synSuccess)
        return failure(status, "synEventRecord");
    m_free.pop_back();
    m_marks.push_back({++m_last, event});
    m_used = true;
    return m_last;
}

Result<bool> FrameworkStream::ended(std::uint64_t number) {
    GAUDI_FRAMEWORK_UNLESS_ABANDONED("synEventQuery")
    if (number > m_last)
        return tl::unexpected(
            thunk::make_error(EINVAL, "synEventQuery", std::to_string(number), "this mark was never made"));
    while (!m_marks.empty() && m_marks.front().number <= number) {
        const vendor::Status status = m_call.EventQuery(m_marks.front().event);
        if (status == vendor::synBusy)
            return false;
        if (status != vendor::synSuccess)
            return failure(status, "synEventQuery", std::to_string(m_marks.front().number));
        m_free.push_back(m_marks.front().event);
        m_marks.pop_front();
    }
    return true;
}

} // namespace gaudi
