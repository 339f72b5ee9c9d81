// SPDX-License-Identifier: BSD-3-Clause
// Copies by SynapseAI's own stream: the copy path where it has all queues of the card, as on a Gaudi3.
#pragma once

#include "gaudi/card/result.h"
#include "synapse.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace gaudi {

/// One stream on the card that SynapseAI holds, for one thread at a time. It ends before SynapseAI closes the card.
class SynapseStream {
public:
    static Result<std::unique_ptr<SynapseStream>> create(const Synapse &synapse,
                                                         std::uint32_t device = Synapse::kDevice);
    /// Waits for copies under way.
    ~SynapseStream();
    /// From any thread: SynapseAI closes the card, so no more calls are made to it, and those of this class fail.
    void abandon() { m_abandoned.store(true, std::memory_order_release); }
    /// Waits for all copies that were started. The framework cannot release the card meanwhile.
    Result<void> synchronize();
    SynapseStream(const SynapseStream &) = delete;
    SynapseStream &operator=(const SynapseStream &) = delete;

    /// Host memory is mapped before the first copy that uses it, and until the last one has ended. SynapseAI has one list
    /// for the process and counts no references: to map memory that is mapped already succeeds, and to unmap it ends the
    /// mapping of whoever made it. So only memory that the caller has allocated may be passed here. There is no call that
    /// says whether memory is mapped. From any thread.
    Result<void> map_host(void *address, std::size_t length);
    Result<void> unmap_host(void *address);

    /// Starts a copy. The copies of a stream are done in order.
    Result<void> copy(vendor::CopyDirection direction, std::uint64_t destination, std::uint64_t source,
                      std::uint64_t length);

    /// Records an event after all copies that were started; its number is larger than all before.
    Result<std::uint64_t> record_event();
    /// Whether all copies before the event have ended.
    Result<bool> has_ended(std::uint64_t number);

private:
    struct Event {
        std::uint64_t number;
        vendor::EventHandle handle;
    };

    SynapseStream(const Synapse &synapse, std::uint32_t device, vendor::StreamHandle stream)
        : m_call(synapse.call()), m_device(device), m_stream(stream) {}

    const Synapse::Calls &m_call;
    std::uint32_t m_device;
    vendor::StreamHandle m_stream;
    bool m_used = false;
    std::atomic<bool> m_abandoned{false};
    std::uint64_t m_last = 0;
    std::deque<Event> m_events;              // under way, the oldest first
    std::vector<vendor::EventHandle> m_free; // events may be recorded again and again
};

} // namespace gaudi
