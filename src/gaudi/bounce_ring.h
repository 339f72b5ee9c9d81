// SPDX-License-Identifier: BSD-3-Clause
// Host memory that cards keep mapped, for copies to be staged in. It is handed out stretch after stretch and may be given
// back in any order; a stretch is used again once everything before it has been given back. A stretch that a card may
// still copy from or to is abandoned instead, and with it the whole memory once the other stretches are back.
#pragma once

#include "host_range.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gaudi {

class BounceRing {
public:
    static constexpr std::uint64_t kBytes = 8ull << 20;
    static constexpr std::uint64_t kStretches = 2048; // at once

    BounceRing() = default;
    ~BounceRing();
    BounceRing(const BounceRing &) = delete;
    BounceRing &operator=(const BounceRing &) = delete;

    /// Makes it at the first call. False when there is no memory.
    bool set_up(std::size_t cards);

    /// A stretch, by its number from 0 to kStretches - 1; nothing while there is no room.
    std::optional<unsigned> take(std::uint64_t length) {
        if (!m_memory && !set_up(m_cards)) [[unlikely]]
            return {};
        const std::uint64_t needed = (length + kLine - 1) / kLine * kLine;
        const std::uint64_t at = m_head % kBytes;
        const std::uint64_t skipped = at + needed > kBytes ? kBytes - at : 0; // it does not run over the end
        if (m_head + skipped + needed - m_tail > kBytes || m_newest - m_oldest == kStretches)
            return {};
        const auto number = static_cast<unsigned>(m_newest++ % kStretches);
        m_head += skipped + needed;
        m_stretches[number] = {(m_head - needed) % kBytes, m_head, true, false};
        return number;
    }
    void give_back(unsigned stretch) {
        m_stretches[stretch].taken = false;
        for (; m_oldest != m_newest && !m_stretches[m_oldest % kStretches].taken; ++m_oldest)
            m_tail = m_stretches[m_oldest % kStretches].end;
        if (m_abandoned != 0) [[unlikely]]
            leave_memory();
    }
    /// The stretch of a copy that may still run is not used again.
    void abandon(unsigned stretch) {
        m_stretches[stretch].abandoned = true;
        ++m_abandoned;
        leave_memory();
    }
    /// False before set_up(), and where new memory could not be had after the old one was left.
    bool has_memory() const { return m_memory != nullptr; }
    void *memory(unsigned stretch) const { return static_cast<char *>(m_memory) + m_stretches[stretch].start; }
    /// Where a card sees it; nothing where the memory cannot be mapped.
    std::optional<std::uint64_t> on(Card &card, unsigned stretch) {
        return m_range->on(card, reinterpret_cast<std::uint64_t>(memory(stretch)));
    }
    /// Why on() had no answer.
    std::string refusal() { return m_range->refusal(); }

private:
    static constexpr std::uint64_t kLine = 64; // neighbours share no cache line

    struct Stretch {
        std::uint64_t start = 0; // in the memory
        std::uint64_t end = 0;   // counted from the beginning of time, as m_head and m_tail are
        bool taken = false;
        bool abandoned = false;
    };

    /// Keeps the memory for the cards that may be at it and starts over, once only abandoned stretches are taken.
    void leave_memory();
    void keep_memory();

    const unsigned m_forks = forks();
    std::size_t m_cards = 0;
    void *m_memory = nullptr;
    std::unique_ptr<HostRange> m_range;
    std::vector<Stretch> m_stretches;
    std::uint64_t m_head = 0, m_tail = 0;     // bytes
    std::uint64_t m_newest = 0, m_oldest = 0; // stretches
    unsigned m_abandoned = 0;                 // of those taken
};

} // namespace gaudi
