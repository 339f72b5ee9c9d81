// SPDX-License-Identifier: BSD-3-Clause
#include "synapse_stream.h"

#include "os/format.h"
#include "synapse_status.h"
#include "thunk/report.h"

#include <cerrno>

namespace gaudi {

using vendor::failure;
using vendor::outcome;

Result<std::unique_ptr<SynapseStream>> SynapseStream::create(const Synapse &synapse, std::uint32_t device) {
    constexpr const char *name = "synStreamCreateGeneric";
    if (!synapse.can_copy())
        return tl::unexpected(thunk::make_error(
            ENOSYS, name, {}, "the loaded SynapseAI lacks a function that copies need; a newer one has it"));
    vendor::StreamHandle stream = nullptr;
    if (const vendor::Status status = synapse.call().StreamCreateGeneric(&stream, device, 0);
        status != vendor::synSuccess)
        return failure(status, name, os::format("device {}", device));
    return std::unique_ptr<SynapseStream>(new SynapseStream(synapse, device, stream));
}

SynapseStream::~SynapseStream() {
    if (m_abandoned.load(std::memory_order_acquire))
        return;
    // SynapseAI does not destroy a stream at work.
    if (m_used)
        thunk::release_or_report(
            [this] { return outcome(m_call.StreamSynchronize(m_stream), "synStreamSynchronize"); });
    for (const Event &event : m_events)
        thunk::release_or_report([&] { return outcome(m_call.EventDestroy(event.handle), "synEventDestroy"); });
    for (vendor::EventHandle free_event : m_free)
        thunk::release_or_report([&] { return outcome(m_call.EventDestroy(free_event), "synEventDestroy"); });
    thunk::release_or_report([this] { return outcome(m_call.StreamDestroy(m_stream), "synStreamDestroy"); });
}

#define GAUDI_SYNAPSE_UNLESS_ABANDONED(call)                                                                           \
    if (m_abandoned.load(std::memory_order_acquire))                                                                   \
        return tl::unexpected(thunk::make_error(ENODEV, call, {}, "SynapseAI has closed the card"));

Result<void> SynapseStream::synchronize() {
    GAUDI_SYNAPSE_UNLESS_ABANDONED("synStreamSynchronize")
    return m_used ? outcome(m_call.StreamSynchronize(m_stream), "synStreamSynchronize") : Result<void>();
}

Result<void> SynapseStream::map_host(void *address, std::size_t length) {
    GAUDI_SYNAPSE_UNLESS_ABANDONED("synHostMap")
    return outcome(m_call.HostMap(m_device, length, address), "synHostMap",
                   os::format("{}, {} bytes", address, length));
}

Result<void> SynapseStream::unmap_host(void *address) {
    if (m_abandoned.load(std::memory_order_acquire))
        return {}; // the mapping ended with the card
    return outcome(m_call.HostUnmap(m_device, address), "synHostUnmap", os::format("{}", address));
}

Result<void> SynapseStream::copy(vendor::CopyDirection direction, std::uint64_t destination, std::uint64_t source,
                                 std::uint64_t length) {
    if (length == 0)
        return {};
    GAUDI_SYNAPSE_UNLESS_ABANDONED("synMemCopyAsync")
    m_used = true;
    const vendor::Status status = m_call.MemCopyAsync(m_stream, source, length, destination, direction);
    if (status != vendor::synSuccess)
        return failure(status, "synMemCopyAsync", os::format("{:#x} to {:#x}, {} bytes", source, destination, length));
    return {};
}

Result<std::uint64_t> SynapseStream::record_event() {
    GAUDI_SYNAPSE_UNLESS_ABANDONED("synEventRecord")
    if (m_free.empty()) {
        vendor::EventHandle event = nullptr;
        if (const vendor::Status status = m_call.EventCreate(&event, m_device, 0); status != vendor::synSuccess)
            return failure(status, "synEventCreate", os::format("device {}", m_device));
        m_free.push_back(event);
    }
    vendor::EventHandle event = m_free.back();
    if (const vendor::Status status = m_call.EventRecord(event, m_stream); status != vendor::synSuccess)
        return failure(status, "synEventRecord");
    m_free.pop_back();
    m_events.push_back({++m_last, event});
    m_used = true;
    return m_last;
}

Result<bool> SynapseStream::has_ended(std::uint64_t number) {
    GAUDI_SYNAPSE_UNLESS_ABANDONED("synEventQuery")
    if (number > m_last)
        return tl::unexpected(
            thunk::make_error(EINVAL, "synEventQuery", std::to_string(number), "this event was never recorded"));
    while (!m_events.empty() && m_events.front().number <= number) {
        const vendor::Status status = m_call.EventQuery(m_events.front().handle);
        if (status == vendor::synBusy)
            return false;
        if (status != vendor::synSuccess)
            return failure(status, "synEventQuery", std::to_string(m_events.front().number));
        m_free.push_back(m_events.front().handle);
        m_events.pop_front();
    }
    return true;
}

} // namespace gaudi
