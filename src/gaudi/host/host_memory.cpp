// SPDX-License-Identifier: BSD-3-Clause
#include "host_memory.h"

#include "gaudi/card/settings.h"
#include "gaudi/counters/counter_page.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gaudi {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t max_bytes() {
    const std::uint64_t set = settings().max_mapped_host.value;
    if (set != Settings::kHalfOfMemory)
        return set;
    return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) / 2 * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// A mapping pins whole pages.
std::uint64_t pinned_bytes(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t pages = end / kPage + (end % kPage != 0 ? 1 : 0) - begin / kPage;
    return pages * kPage;
}

} // namespace

std::atomic<HostMemory *> HostMemory::s_only{nullptr};
std::atomic<std::uint64_t> HostMemory::s_clock{1};

HostMemory &HostMemory::get() {
    HostMemory *only = s_only.load(std::memory_order_acquire);
    if (only && only->m_fork == fork_count()) [[likely]]
        return *only;
    auto *mine = new HostMemory(only); // never freed: ranges end in UCX's last destructors
    if (s_only.compare_exchange_strong(only, mine, std::memory_order_acq_rel))
        return *mine;
    delete mine; // another thread was faster
    return *only;
}

void HostMemory::set_bytes(std::uint64_t bytes) {
    m_bytes = bytes;
    counters().mapped_host_bytes.store(bytes, std::memory_order_relaxed);
}

// ---- one mapping ----------------------------------------------------------------------------------------------------

bool HostMemory::is_idle(const MappedSpan &span) {
    return std::all_of(span.ranges.begin(), span.ranges.end(), [](const AccountedRange *range) {
        return range->m_copies->load(std::memory_order_seq_cst) == 0;
    });
}

bool HostMemory::has_abandoned_copies(const MappedSpan &span) {
    return std::any_of(span.ranges.begin(), span.ranges.end(), [](const AccountedRange *range) {
        return range->m_copies->load(std::memory_order_acquire) / AccountedRange::kAbandoned != 0;
    });
}

std::uint64_t HostMemory::last_use(const MappedSpan &span) {
    std::uint64_t last = kFirst + 1;
    for (const AccountedRange *range : span.ranges)
        last = std::max(last, range->m_last_use.load(std::memory_order_relaxed));
    return last;
}

void HostMemory::hide(const MappedSpan &span) {
    for (AccountedRange *range : span.ranges)
        range->slot(span.mapping.session()).start.store(0, std::memory_order_seq_cst);
}

void HostMemory::publish(MappedSpan &span) {
    for (AccountedRange *range : span.ranges) {
        AccountedRange::Slot &slot = range->slot(span.mapping.session());
        slot.span = &span;
        slot.start.store(span.start + (range->address() - span.address), std::memory_order_seq_cst);
    }
}

HostMemory::Spans::iterator HostMemory::reorder(Spans::iterator at, std::uint64_t used) {
    const auto next = std::next(at);
    auto node = m_spans.extract(at);
    node.key().first = node.mapped().order.first = used;
    const auto moved = m_spans.insert(std::move(node)).position;
    return next == m_spans.end() || moved->first < next->first ? moved : next;
}

void HostMemory::end(Spans::iterator at, std::vector<HostMapping> &later) {
    MappedSpan &span = at->second;
    hide(span);
    for (AccountedRange *range : span.ranges)
        range->slot(span.mapping.session()).span = nullptr;
    if (at->first.first != kNever)
        set_bytes(m_bytes - span.bytes);
    if (span.mapping.unmap_may_block())
        later.push_back(std::move(span.mapping));
    m_spans.erase(at);
}

bool HostMemory::end_if_idle(Spans::iterator at, std::vector<HostMapping> &later) {
    if (!is_idle(at->second))
        return false;
    hide(at->second);
    if (!is_idle(at->second)) { // a copy has just begun, and may have seen the mapping
        publish(at->second);
        return false;
    }
    end(at, later);
    return true;
}

/// Mappings that have lost a range while copies used the others.
void HostMemory::end_waiting(std::vector<HostMapping> &later) {
    unsigned tries = 8;
    for (auto at = m_spans.begin(); at != m_spans.end() && at->first.first == kFirst && tries > 0; --tries) {
        const auto next = std::next(at);
        end_if_idle(at, later);
        at = next;
    }
}

// ---- ranges ---------------------------------------------------------------------------------------------------------

void HostMemory::enroll(AccountedRange &range) {
    const os::MutexLock lock(m_mutex);
    m_registered.add(range);
    range.m_enrolled_in = this;
}

void HostMemory::remove(AccountedRange &range) {
    std::vector<HostMapping> later;    // destroyed after the lock is released
    const os::MutexLock lock(m_mutex); // also while mappings end, so that no session ends meanwhile
    if (range.m_enrolled_in == this) {
        m_registered.remove(range);
        if (range.m_merging) {
            std::erase(range.m_merging->ranges, &range);
            range.m_merging->ended = true;
        }
    }
    for (AccountedRange::Slot &slot : range.m_slots) {
        MappedSpan *span = slot.span;
        if (!span || span->fork != m_fork)
            continue;
        const auto at = m_spans.find(span->order);
        if (span->ranges.size() == 1) {
            end(at, later);
            continue;
        }
        slot.start.store(0, std::memory_order_seq_cst);
        slot.span = nullptr;
        std::erase(span->ranges, &range);
        for (AccountedRange *neighbour : span->ranges) // so that each is mapped once more at most
            neighbour->m_mapped_alone = true;
        if (!end_if_idle(at, later))
            reorder(at, kFirst);
    }
    end_waiting(later);
}

std::vector<Session *> HostMemory::detach(AccountedRange &range) {
    std::vector<HostMapping> none; // a mapping that is detached has nothing to end
    std::vector<Session *> sessions;
    const os::MutexLock lock(m_mutex);
    for (AccountedRange::Slot &slot : range.m_slots) {
        if (!slot.span || slot.span->fork != m_fork)
            continue;
        sessions.push_back(&slot.span->mapping.session());
        slot.span->mapping.detach();
        end(m_spans.find(slot.span->order), none);
    }
    return sessions;
}

std::vector<Session *> HostMemory::sessions_of(const AccountedRange &range) const {
    std::vector<Session *> sessions;
    const os::MutexLock lock(m_mutex);
    for (const AccountedRange::Slot &slot : range.m_slots)
        if (slot.span)
            sessions.push_back(&slot.span->mapping.session());
    return sessions;
}

// ---- new mappings ---------------------------------------------------------------------------------------------------

bool HostMemory::merge(AccountedRange &range, const Session &session, MergedRanges &merged) {
    const std::uint64_t limit = max_bytes();
    const os::MutexLock lock(m_mutex);
    const std::uint64_t first = range.address() / kMergedBytes * kMergedBytes;
    if (range.m_enrolled_in != this || range.m_mapped_alone || range.m_merging || range.end() > first + kMergedBytes)
        return false;
    merged = MergedRanges(range);
    const auto suits = [&](const AccountedRange &other) {
        return !other.m_merging && !other.m_mapped_alone && other.address() >= first &&
               other.end() <= first + kMergedBytes && other.slot(session).start.load(std::memory_order_relaxed) == 0;
    };
    range.m_merging = &merged; // so that no range is found twice
    for (const auto edge : {NeighbourTable::begin, NeighbourTable::end}) {
        std::uint64_t &reached = edge == NeighbourTable::begin ? merged.end : merged.begin;
        while (merged.ranges.size() < kMergedRanges) {
            AccountedRange *other = m_registered.find(edge, reached, suits);
            if (!other)
                break;
            other->m_merging = &merged;
            merged.ranges.push_back(other);
            reached = edge == NeighbourTable::begin ? other->end() : other->address();
        }
    }
    const std::uint64_t bytes = pinned_bytes(merged.begin, merged.end);
    if (merged.ranges.size() > 1 && bytes <= limit && m_bytes <= limit - bytes)
        return true;
    release(merged); // nothing is unmapped for memory that no copy has used yet
    return false;
}

void HostMemory::release(MergedRanges &merged) {
    for (AccountedRange *range : merged.ranges)
        if (range->m_merging == &merged) // and not another thread's, which would map it with its neighbours
            range->m_merging = nullptr;
}

void HostMemory::cancel(MergedRanges &merged, bool for_good) {
    const os::MutexLock lock(m_mutex);
    release(merged);
    for (AccountedRange *range : merged.ranges)
        range->m_mapped_alone = range->m_mapped_alone || for_good;
}

bool HostMemory::make_room(const AccountedRange &range) {
    const std::uint64_t limit = max_bytes(), bytes = pinned_bytes(range.address(), range.end());
    if (bytes > limit)
        return false;
    std::vector<HostMapping> later; // destroyed after the lock is released
    const os::MutexLock lock(m_mutex);
    while (m_bytes > limit - bytes)
        if (!evict_one(later))
            return false;
    return true;
}

bool HostMemory::evict_one() {
    std::vector<HostMapping> later;
    const os::MutexLock lock(m_mutex);
    return evict_one(later);
}

bool HostMemory::evict_one(std::vector<HostMapping> &later) {
    // The order is that of the uses which earlier searches have seen: a mapping that was used since moves on.
    std::size_t looked_at = 0;
    for (auto at = m_spans.begin(); at != m_spans.end() && at->first.first != kNever && looked_at < kRangesPerSearch;) {
        looked_at += at->second.ranges.size();
        const std::uint64_t known = at->first.first;
        const std::uint64_t used = known == kFirst ? kFirst : last_use(at->second);
        if (used > known) {
            at = reorder(at, used);
            continue;
        }
        const auto next = std::next(at);
        if (end_if_idle(at, later))
            return true;
        if (known != kFirst)
            reorder(at, now());
        at = next;
    }
    return false;
}

HostMemory::Added HostMemory::add(MergedRanges &merged, HostMapping &mapping, std::uint64_t &start) {
    std::vector<HostMapping> later; // destroyed after the lock is released
    const os::MutexLock lock(m_mutex);
    release(merged);
    const Session &session = mapping.session();
    if (!session.usable()) // unmap_all() may have been here already
        return Added::session_ended;
    const auto is_free = [&](const AccountedRange *one) {
        return one->slot(session).start.load(std::memory_order_relaxed) == 0;
    };
    AccountedRange &range = *merged.ranges.front();
    if (!is_free(&range)) {
        start = range.slot(session).start.load(std::memory_order_relaxed);
        return Added::mapped_meanwhile;
    }
    // A neighbour with a mapping of its own would not end this one with its registration.
    if (merged.ended || !std::all_of(merged.ranges.begin(), merged.ranges.end(), is_free))
        return Added::neighbour_ended;
    end_waiting(later);
    s_clock.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t bytes = pinned_bytes(merged.begin, merged.end);
    MappedSpan span{{}, m_fork, std::move(mapping), merged.begin, start, bytes, std::move(merged.ranges)};
    span.order = {range.evictable() ? last_use(span) : kNever, ++m_next_number};
    const MappedSpan::Order order = span.order;
    publish(m_spans.emplace(order, std::move(span)).first->second);
    if (range.evictable())
        set_bytes(m_bytes + bytes);
    start = range.slot(session).start.load(std::memory_order_relaxed);
    return Added::added;
}

void HostMemory::unmap_all(const Session &session) {
    std::vector<HostMapping> ended;
    const os::MutexLock lock(m_mutex);
    for (auto at = m_spans.begin(); at != m_spans.end();) {
        MappedSpan &span = at->second;
        const auto next = std::next(at);
        if (&span.mapping.session() == &session) {
            if (has_abandoned_copies(span) || session.card_lost()) // the driver unmaps it with the descriptor
                span.mapping.detach();
            end(at, ended);
            ended.clear(); // with the lock held: the session ends when this returns
        }
        at = next;
    }
}

void HostMemory::keep(std::shared_ptr<void> touched) {
    const os::MutexLock lock(m_mutex);
    m_kept.push_back(std::move(touched));
}

std::size_t HostMemory::kept() const {
    const os::MutexLock lock(m_mutex);
    return m_kept.size();
}

std::uint64_t HostMemory::mapped_bytes() const {
    const os::MutexLock lock(m_mutex);
    return m_bytes;
}

} // namespace gaudi
