// SPDX-License-Identifier: BSD-3-Clause
// A range of memory as the account of mapped host memory sees it: where it is, where each card sees it, and whether copies
// use it.
#pragma once

#include "gaudi/card/card.h"
#include "gaudi/card/session.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace gaudi {

class HostMemory;
struct MappedSpan;
struct MergedRanges;

class AccountedRange {
public:
    AccountedRange(const AccountedRange &) = delete;
    AccountedRange &operator=(const AccountedRange &) = delete;

    std::uint64_t address() const { return m_address; }
    std::uint64_t length() const { return m_length; }
    std::uint64_t end() const { return m_address + m_length; }
    bool contains(std::uint64_t address, std::uint64_t length) const {
        return address >= m_address && length <= m_length && address - m_address <= m_length - length;
    }
    /// Whether the range counts towards the limit and may be unmapped for others while it is idle.
    bool evictable() const { return m_evictable; }

    /// How many copies use the range (low half), and how many of these were abandoned but may still run (high half).
    using Copies = std::atomic<std::uint64_t>;

protected:
    AccountedRange(std::uint64_t address, std::uint64_t length, std::size_t cards, bool evictable)
        : m_address(address), m_length(length), m_evictable(evictable), m_slots(cards) {}
    ~AccountedRange() = default;

    static constexpr std::uint64_t kRefused = 1;            // no mapping starts there
    static constexpr std::uint64_t kAbandoned = 1ull << 32; // one abandoned copy

    /// The range on one card.
    struct Slot {
        // Where the card's session sees the range. 0: not mapped; kRefused: the session cannot map it.
        std::atomic<std::uint64_t> start{0};
        MappedSpan *span = nullptr; // the mapping that it is part of; guarded by the account's lock
    };
    Slot &slot(const Session &session) { return m_slots[session.card().slot()]; }
    const Slot &slot(const Session &session) const { return m_slots[session.card().slot()]; }

private:
    friend class HostMemory;
    friend class NeighbourTable;
    friend class HostRange;

    const std::uint64_t m_address;
    const std::uint64_t m_length;
    const bool m_evictable;
    std::vector<Slot> m_slots;                                      // by card
    std::shared_ptr<Copies> m_copies = std::make_shared<Copies>(0); // outlives the range if an abandoned copy does
    std::atomic<std::uint64_t> m_last_use{0};                       // by HostMemory::now()

    // ---- guarded by the account's lock
    struct Link {
        AccountedRange *next = nullptr;
        AccountedRange **previous = nullptr; // what points to this range
    };
    std::array<Link, 2> m_links;               // by NeighbourTable::Edge
    const HostMemory *m_enrolled_in = nullptr; // whose table has the range
    MergedRanges *m_merging = nullptr;         // while a mapping is made that this range would be part of
    bool m_mapped_alone = false;               // from now on: a mapping with its neighbours was refused or had to end
};

} // namespace gaudi
