// SPDX-License-Identifier: BSD-3-Clause
// Copies by SynapseAI's own engine: the way to copy where it has all queues of the card, as on a Gaudi3.
#pragma once

#include "copier.h"
#include "framework.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace gaudi {

/// One stream of a card that SynapseAI holds, for one thread at a time. It must end before SynapseAI gives the card
/// back.
class FrameworkStream {
public:
    static Result<std::unique_ptr<FrameworkStream>> create(const Framework &framework,
                                                           std::uint32_t device = Framework::kDevice);
    /// Waits for what is under way.
    ~FrameworkStream();
    /// From any thread: no more calls are made, they only fail. SynapseAI is giving the card back, and all that is on it.
    void abandon() { m_abandoned.store(true, std::memory_order_release); }
    /// Waits for everything that was started.
    void settle();
    FrameworkStream(const FrameworkStream &) = delete;
    FrameworkStream &operator=(const FrameworkStream &) = delete;

    /// Host memory must be mapped before it is copied from or to, and until that has ended. SynapseAI has one list for
    /// the process: memory that its user has mapped is mapped for us too, and must not be mapped again. From any thread.
    Result<void> map_host(void *address, std::size_t length);
    Result<void> unmap_host(void *address);

    /// Starts a copy. Those of a stream are done in order.
    Result<void> copy(Direction direction, std::uint64_t destination, std::uint64_t source, std::uint64_t length);

    /// A number, larger than all before, that stands for everything that was started so far.
    Result<std::uint64_t> mark();
    /// Whether everything that the number stands for has ended.
    Result<bool> ended(std::uint64_t number);

private:
    struct Mark {
        std::uint64_t number;
        vendor::EventHandle event;
    };

    FrameworkStream(const Framework &framework, std::uint32_t device, vendor::StreamHandle stream)
        : m_call(framework.call()), m_device(device), m_stream(stream) {}

    const Framework::Calls &m_call;
    std::uint32_t m_device;
    vendor::StreamHandle m_stream;
    bool m_used = false;
    std::atomic<bool> m_abandoned{false};
    std::uint64_t m_last = 0;
    std::deque<Mark> m_marks;                // under way, the oldest first
    std::vector<vendor::EventHandle> m_free; // events may be recorded again and again
};

} // namespace gaudi
