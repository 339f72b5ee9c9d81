// SPDX-License-Identifier: BSD-3-Clause
// Host memory that stays mapped into cards, for copies to be staged in. Slices are taken in order and may be released in any
// order; a slice is used again once all slices before it are released. A slice that a card may still access is abandoned
// instead, and with it the whole memory once the other slices are released.
#pragma once

#include "gaudi/card/forks.h"
#include "host_range.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gaudi {

class BounceRing {
public:
    static constexpr std::uint64_t kBytes = 8ull << 20;
    static constexpr std::uint64_t kSlices = 2048; // at once

    BounceRing() = default;
    ~BounceRing();
    BounceRing(const BounceRing &) = delete;
    BounceRing &operator=(const BounceRing &) = delete;

    /// Allocates the memory at the first call. False when the process has none left.
    bool set_up(std::size_t cards);

    /// A slice, by its number from 0 to kSlices - 1; nothing while the ring is full.
    std::optional<unsigned> take(std::uint64_t length) {
        if (!m_memory && !set_up(m_cards)) [[unlikely]]
            return {};
        const std::uint64_t needed = (length + kLine - 1) / kLine * kLine;
        const std::uint64_t at = m_head % kBytes;
        const std::uint64_t skipped = at + needed > kBytes ? kBytes - at : 0; // a slice does not wrap around
        if (m_head + skipped + needed - m_tail > kBytes || m_newest - m_oldest == kSlices)
            return {};
        const auto number = static_cast<unsigned>(m_newest++ % kSlices);
        m_head += skipped + needed;
        m_slices[number] = {(m_head - needed) % kBytes, m_head, true, false};
        return number;
    }
    void release(unsigned slice) {
        m_slices[slice].taken = false;
        for (; m_oldest != m_newest && !m_slices[m_oldest % kSlices].taken; ++m_oldest)
            m_tail = m_slices[m_oldest % kSlices].end;
        if (m_abandoned != 0) [[unlikely]]
            replace_memory();
    }
    /// The slice of an abandoned copy, which may still run, is not used again.
    void abandon(unsigned slice) {
        m_slices[slice].abandoned = true;
        ++m_abandoned;
        replace_memory();
    }
    /// False before set_up(), and where no memory could be allocated after the old one was abandoned.
    bool has_memory() const { return m_memory != nullptr; }
    void *memory(unsigned slice) const { return static_cast<char *>(m_memory) + m_slices[slice].start; }
    /// Where the session's card sees the slice.
    Result<std::uint64_t> map(Session &session, unsigned slice) {
        return m_range->map(session, reinterpret_cast<std::uint64_t>(memory(slice)));
    }

private:
    static constexpr std::uint64_t kLine = 64; // neighbours share no cache line

    struct Slice {
        std::uint64_t start = 0; // in the memory
        std::uint64_t end = 0;   // counted as m_head and m_tail are, without wrapping
        bool taken = false;
        bool abandoned = false;
    };

    /// Starts over with new memory, once only abandoned slices are taken.
    void replace_memory();
    /// Keeps the memory mapped to the end of the process, for the cards that may still access it.
    void keep_memory();

    const unsigned m_fork = fork_count();
    std::size_t m_cards = 0;
    void *m_memory = nullptr;
    std::shared_ptr<HostRange> m_range;
    std::vector<Slice> m_slices;
    std::uint64_t m_head = 0, m_tail = 0;     // bytes
    std::uint64_t m_newest = 0, m_oldest = 0; // slices
    unsigned m_abandoned = 0;                 // of those taken
};

} // namespace gaudi
