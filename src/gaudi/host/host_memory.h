// SPDX-License-Identifier: BSD-3-Clause
// The policy for host memory on cards, and its account. Registering memory costs nothing; the first copy maps it into the
// card, which pins its pages, and the mapping is kept for the next copy. When the evictable mappings exceed the limit that
// the user has set, the ranges that no copy used for the longest time are unmapped; the next copy maps them again. That
// holds for registered memory and for memory that HostCache keeps alike.
#pragma once

#include "host_mapping.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gaudi {

/// A range with its mappings, as the account sees it.
class AccountedRange {
public:
    /// Whether the range counts towards the limit and may be unmapped for others while it is idle.
    virtual bool evictable() const = 0;
    /// The time of the last copy, by HostMemory::now().
    virtual std::uint64_t last_use() const = 0;
    /// Ends all mappings; false while a copy uses the range or a thread maps it. Mappings whose unmap may block go to
    /// `later`, to be ended with no lock held.
    virtual bool unmap_if_idle(std::vector<HostMapping> &later) = 0;
    /// Ends the mappings of a session and returns how many; nothing while a thread maps the range.
    virtual std::optional<unsigned> unmap_from(const Session &session) = 0;
    /// Whether that thread is in the call that maps: its mapping is refused by HostMemory::add() afterwards.
    virtual bool is_being_mapped() const = 0;
    virtual void end_mappings(std::vector<HostMapping> &later) = 0;

protected:
    ~AccountedRange() = default;
};

class HostMemory {
public:
    /// A limit on the number of mappings, whatever their size: each is an entry in the driver's tables.
    static constexpr std::size_t kMaxMappings = 4096;

    static HostMemory &get();

    /// Makes room for a mapping of `length` bytes of `range`; false where the ranges that could be unmapped are in use.
    bool make_room(const AccountedRange &range, std::uint64_t length);
    /// Unmaps the range that was not used for the longest time, but for `except`; false when there is none.
    bool evict_one(const AccountedRange &except);
    /// Counts a new mapping of the range; false when the session is not usable any more.
    bool add(AccountedRange &range, std::uint64_t length, const Session &session);
    /// Ends the mappings of a range and takes it out of the account.
    void remove(AccountedRange &range);
    /// Ends all mappings of a session, which is about to be closed and takes no more copies.
    void unmap_all(const Session &session);

    /// Keeps memory that an abandoned copy may still touch until the process ends.
    void keep(std::shared_ptr<void> touched);
    std::size_t kept() const;

    /// The bytes that are mapped for evictable ranges, over all cards.
    std::uint64_t mapped_bytes() const;

    /// A clock that advances with each mapping: the order of uses matters only as far as mappings lie between them.
    static std::uint64_t now() { return s_clock.load(std::memory_order_relaxed); }

private:
    struct Entry {
        AccountedRange *range;
        std::uint64_t length; // on all cards together
        std::size_t mappings;
    };
    HostMemory() = default;
    std::vector<Entry>::iterator find(const AccountedRange &range) GAUDI_REQUIRES(m_mutex);
    bool evict_one(const AccountedRange &except, std::vector<HostMapping> &later) GAUDI_REQUIRES(m_mutex);
    void set_length(std::uint64_t length) GAUDI_REQUIRES(m_mutex);

    static std::atomic<std::uint64_t> s_clock;

    mutable os::Mutex m_mutex{rank::kHostMemory};
    std::vector<Entry> m_entries GAUDI_GUARDED_BY(m_mutex); // by the time of their first mapping
    std::uint64_t m_length GAUDI_GUARDED_BY(m_mutex) = 0;   // of the evictable ones
    std::size_t m_mappings GAUDI_GUARDED_BY(m_mutex) = 0;   // of the evictable ones
    std::vector<std::shared_ptr<void>> m_kept GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi
