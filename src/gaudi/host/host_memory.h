// SPDX-License-Identifier: BSD-3-Clause
// The policy for host memory on cards, and its account. Registering memory costs nothing; the first copy maps it into the
// card, which pins its pages, and the mapping is kept for the next copy. Small registered ranges that touch are mapped
// together. When the evictable mappings exceed the limit that the user has set, those that no copy used for the longest time
// are ended; the next copy maps the memory again. That holds for registered memory and for memory that HostCache keeps alike.
#pragma once

#include "accounted_range.h"
#include "gaudi/card/forks.h"
#include "host_mapping.h"
#include "neighbour_table.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace gaudi {

/// Ranges for which one mapping is being made.
struct MergedRanges {
    MergedRanges() = default;
    explicit MergedRanges(AccountedRange &range) : begin(range.address()), end(range.end()), ranges{&range} {}

    std::uint64_t begin = 0, end = 0;
    // Guarded by the account's lock once merge() has returned.
    std::vector<AccountedRange *> ranges; // the first is the one that a copy needs
    bool ended = false;                   // one of the others, meanwhile

    std::uint64_t length() const { return end - begin; }
};

/// One mapping in the account.
struct MappedSpan {
    /// The time of the last use as far as it is known, and a number that tells mappings of one time apart.
    using Order = std::pair<std::uint64_t, std::uint64_t>;

    Order order;
    unsigned fork; // the process's
    HostMapping mapping;
    std::uint64_t address; // of its first byte
    std::uint64_t start;   // where the session's card sees that
    std::uint64_t bytes;   // of whole pages
    std::vector<AccountedRange *> ranges;
};

class HostMemory {
public:
    /// Neighbours are merged within an aligned piece of this length: that of a huge page.
    static constexpr std::uint64_t kMergedBytes = 2 << 20;
    static constexpr std::size_t kMergedRanges = 512; // at most

    /// A forked child has an account of its own: the mappings in the old one are its parent's.
    static HostMemory &get();

    // ---- ranges
    /// From now on the range may be mapped together with its neighbours.
    void enroll(AccountedRange &range);
    /// Ends the mappings of a range that no copy uses and takes it out of the account. A mapping that it shares with others
    /// ends too, as soon as no copy uses those: its pages must not stay pinned. The others are mapped again when needed.
    void remove(AccountedRange &range);
    /// The same for a range whose copies do not end: its mappings stay. Returns their sessions.
    std::vector<Session *> detach(AccountedRange &range);
    std::vector<Session *> sessions_of(const AccountedRange &range) const;

    // ---- mappings
    /// The range with those beside it that are not mapped on the session's card either; false where there are none, or where
    /// the limit has no room for them. They are passed to add() or cancel() next.
    bool merge(AccountedRange &range, const Session &session, MergedRanges &merged);
    /// The mapping of merged ranges was refused. `for_good`: each of them will be mapped alone.
    void cancel(MergedRanges &merged, bool for_good);
    /// Makes room for a mapping of the range; false where the mappings that could be ended are in use.
    bool make_room(const AccountedRange &range);
    /// Ends the mapping that was not used for the longest time; false when all that were looked at are in use.
    bool evict_one();
    enum class Added { added, mapped_meanwhile, session_ended, neighbour_ended };
    /// Counts a new mapping, which begins at `start` on the card, and publishes it to its ranges. Where the range is mapped
    /// then, by this mapping or by another, `start` becomes that of the range.
    Added add(MergedRanges &merged, HostMapping &mapping, std::uint64_t &start);
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
    explicit HostMemory(HostMemory *inherited) : m_inherited(inherited) {}

    using Spans = std::map<MappedSpan::Order, MappedSpan>;
    static constexpr std::uint64_t kFirst = 0;           // a mapping that is to end as soon as it is idle
    static constexpr std::uint64_t kNever = UINT64_MAX;  // a mapping that is not evictable
    static constexpr std::size_t kRangesPerSearch = 512; // that an eviction looks at

    static bool is_idle(const MappedSpan &span);
    static bool has_abandoned_copies(const MappedSpan &span);
    static std::uint64_t last_use(const MappedSpan &span);
    static void hide(const MappedSpan &span);
    static void publish(MappedSpan &span);
    /// Returns the mapping that is next in order.
    Spans::iterator reorder(Spans::iterator at, std::uint64_t used) GAUDI_REQUIRES(m_mutex);
    void end(Spans::iterator at, std::vector<HostMapping> &later) GAUDI_REQUIRES(m_mutex);
    bool end_if_idle(Spans::iterator at, std::vector<HostMapping> &later) GAUDI_REQUIRES(m_mutex);
    void end_waiting(std::vector<HostMapping> &later) GAUDI_REQUIRES(m_mutex);
    void release(MergedRanges &merged) GAUDI_REQUIRES(m_mutex);
    bool evict_one(std::vector<HostMapping> &later) GAUDI_REQUIRES(m_mutex);
    void set_bytes(std::uint64_t bytes) GAUDI_REQUIRES(m_mutex);

    static std::atomic<HostMemory *> s_only;
    static std::atomic<std::uint64_t> s_clock;

    const unsigned m_fork = fork_count();
    [[maybe_unused]] HostMemory *const m_inherited; // kept: to end its mappings would end those of the parent
    mutable os::Mutex m_mutex{rank::kHostMemory};
    NeighbourTable m_registered GAUDI_GUARDED_BY(m_mutex);
    Spans m_spans GAUDI_GUARDED_BY(m_mutex);
    std::uint64_t m_next_number GAUDI_GUARDED_BY(m_mutex) = 0;
    std::uint64_t m_bytes GAUDI_GUARDED_BY(m_mutex) = 0; // of the evictable ones
    std::vector<std::shared_ptr<void>> m_kept GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi
