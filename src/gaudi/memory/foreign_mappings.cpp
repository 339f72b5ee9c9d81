// SPDX-License-Identifier: BSD-3-Clause
#include "foreign_mappings.h"

#include "gaudi/card/card.h"
#include "live_mappings.h"
#include "os/format.h"
#include "region_pool.h"
#include "thunk/report.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

namespace gaudi {
namespace {

// One of two threads that found the same mapping, by the hooks and by a probe, publishes it.
constinit os::Mutex g_publication{rank::kPublication};

} // namespace

/// The driver places each card's first mapping at the same address unless it is given a hint.
void report_ambiguous(const Card &first, const Card &second, std::uint64_t address) {
    static std::atomic<bool> reported{false};
    if (!reported.exchange(true))
        thunk::report(
            {EEXIST, "map",
             os::format("{:#x} is an address on card {} ({}) and on card {} ({}) of this process; it is taken for the "
                        "first, so use one card per process, or map with hints",
                        address, first.number(), first.bus_id(), second.number(), second.bus_id())});
}

bool confirm(Region &region, std::uint64_t generation) {
    if (region.origin() != Region::Origin::probed || LiveMappings::get().is_notifying())
        return true;
    Session &session = region.session();
    if (session.usable()) {
        const auto exported = session.device().export_dmabuf(region.base(), region.export_size());
        if (exported || thunk::is_transient(exported.error().code))
            return true;
    }
    if (ForeignMappings *foreign = session.find<ForeignMappings>())
        foreign->withdraw(region, generation);
    return false;
}

// ---- known mappings -------------------------------------------------------------------------------------------------

/// `id` is that of a mapping in the table; 0 for one that is not there yet.
Region *ForeignMappings::publish(Range range, Region::Origin origin, std::uint64_t id) {
    Region *region = RegionPool::get().take();
    region->begin(m_session, range, origin);
    // A refusal must be known before UCX tries to register the mapping.
    if (m_session.exports() != Session::Exports::no && range.length > m_session.longest_export())
        if (const auto probed = region->probe_export())
            m_session.set_exports(*probed, range.length);
    if (m_session.exports() == Session::Exports::no)
        region->forbid_export(m_session.why_no_exports());
    const os::MutexLock publication(g_publication);
    if (origin == Region::Origin::probed) {
        if (Region *known = LiveMappings::get().find(range.base)) {
            region->end();
            RegionPool::get().give_back(*region);
            return known;
        }
    } else {
        withdraw_overlapping(range, id); // a probe may have found the mapping since it was noted
    }
    LiveMappings::get().publish(*region);
    const std::uint64_t generation = region->generation();
    bool noted = false;
    {
        const os::MutexLock lock(m_mutex); // last: withdraw() takes the region out of the live mappings
        const auto known = m_mappings.find(range.base);
        const bool is_there = known != m_mappings.end();
        // Decided under the lock: release(), which comes after the session's end, sees the entry or it is refused.
        noted = m_session.usable() &&
                (is_there ? !known->second.unmapping && (id == 0 || id == known->second.id) : id == 0);
        if (noted) {
            Mapping &mapping = m_mappings[range.base];
            if (!is_there)
                mapping.id = ++m_last_id;
            mapping.size = range.length;
            mapping.region = region;
            mapping.generation = generation;
        }
    }
    if (!noted) { // the framework unmaps it, or has done so, or has closed the card
        LiveMappings::get().withdraw(*region);
        region->end();
        RegionPool::get().give_back(*region);
        return nullptr;
    }
    return region;
}

void ForeignMappings::withdraw(Region &region, std::uint64_t generation) {
    {
        const os::MutexLock lock(m_mutex);
        const auto known = m_mappings.find(region.base());
        if (known == m_mappings.end() || known->second.region != &region || known->second.generation != generation ||
            region.generation() != generation)
            return;
        known->second.region = nullptr;
        if (!known->second.unmapping && known->second.handle == 0)
            m_mappings.erase(known);
    }
    LiveMappings::get().withdraw(region);
    region.end();
    RegionPool::get().give_back(region);
}

void ForeignMappings::withdraw_overlapping(Range range, std::uint64_t live_id) {
    std::vector<std::pair<Region *, std::uint64_t>> gone;
    {
        const os::MutexLock lock(m_mutex);
        auto next = m_mappings.upper_bound(range.base);
        if (next != m_mappings.begin())
            --next; // it may reach into the range
        for (; next != m_mappings.end() && next->first < range.base + range.length; ++next) {
            Mapping &mapping = next->second;
            if (!mapping.region || range.base >= next->first + mapping.size)
                continue;
            gone.emplace_back(mapping.region, mapping.generation);
            if (mapping.id != live_id)
                mapping.handle = 0; // of an allocation that was unmapped: withdraw() drops the entry
        }
    }
    for (const auto &[region, generation] : gone)
        withdraw(*region, generation);
}

bool ForeignMappings::is_being_unmapped(std::uint64_t base) {
    constexpr unsigned kTries = 100'000;
    for (unsigned i = 0; i < kTries; ++i) {
        {
            const os::MutexLock lock(m_mutex);
            const DeferredUnmap *deferred = find_deferred(base);
            if (deferred && !deferred->trying)
                return true;
            const auto known = m_mappings.find(base);
            if (!deferred && (known == m_mappings.end() || !known->second.unmapping))
                return false;
        }
        std::this_thread::yield();
    }
    return true;
}

void ForeignMappings::release() {
    withdraw_overlapping({0, UINT64_MAX});
    const os::MutexLock lock(m_mutex);
    m_mappings.clear();
    m_allocations.clear();
    m_deferred.clear();
    set_deferred_count();
}

// ---- calls of the framework -----------------------------------------------------------------------------------------

void ForeignMappings::note_allocation(std::uint64_t handle, std::uint64_t size) {
    const os::MutexLock lock(m_mutex);
    m_allocations[handle] = size;
}

void ForeignMappings::note_mapping(std::uint64_t address, std::uint64_t handle) {
    std::uint64_t size = 0, id = 0;
    {
        const os::MutexLock lock(m_mutex);
        if (const auto known = m_allocations.find(handle); known != m_allocations.end())
            size = known->second;
    }
    const Range range{address, std::max<std::uint64_t>(size, 1)};
    {
        const os::MutexLock publication(g_publication); // a probe publishes nothing in between
        withdraw_overlapping(range);                    // mappings that were unmapped past the hooks
        const os::MutexLock lock(m_mutex);
        id = ++m_last_id;
        m_mappings[address] = {.id = id, .size = size, .handle = handle};
    }
    if (size == 0)
        return;
    Region *known = LiveMappings::get().find(address);
    if (known && &known->session() != &m_session && !confirm(*known))
        known = LiveMappings::get().find(address);
    if (known && &known->session() != &m_session)
        report_ambiguous(known->card(), m_session.card(), address);
    else
        publish(range, Region::Origin::hooked, id);
}

std::optional<ForeignMappings::Unmap> ForeignMappings::begin_unmap(std::uint64_t address) {
    Unmap unmap;
    Region *region = nullptr;
    std::uint64_t generation = 0;
    {
        const os::MutexLock lock(m_mutex);
        Mapping &mapping = m_mappings[address];
        if (mapping.unmapping)
            return {};
        if (mapping.id == 0) { // not known until now
            if (find_deferred(address)) {
                m_mappings.erase(address);
                return {};
            }
            mapping.id = ++m_last_id;
        }
        mapping.unmapping = true;
        unmap.id = mapping.id;
        unmap.hooked = mapping.handle != 0;
        region = mapping.region;
        generation = mapping.generation;
    }
    if (region) {
        unmap.exported = region->was_exported();
        withdraw(*region, generation);
    }
    return unmap;
}

bool ForeignMappings::end_unmap(std::uint64_t address, const Unmap &unmap, bool succeeded) {
    std::uint64_t size = 0;
    {
        const os::MutexLock lock(m_mutex);
        const auto known = m_mappings.find(address);
        if (known == m_mappings.end() || known->second.id != unmap.id)
            return false; // the session has ended, or the next mapping has the address
        if (!succeeded && unmap.exported && m_session.usable()) {
            m_deferred.push_back({unmap.id, address, known->second.handle});
            set_deferred_count();
            m_mappings.erase(known);
            return true;
        }
        if (succeeded || !unmap.hooked || !m_session.usable()) {
            m_mappings.erase(known);
            return false;
        }
        known->second.unmapping = false;
        size = known->second.size;
    }
    if (size != 0)
        publish({address, size}, Region::Origin::hooked, unmap.id);
    return false;
}

ForeignMappings::DeferredUnmap *ForeignMappings::find_deferred(std::uint64_t address) {
    const auto found = std::find_if(m_deferred.begin(), m_deferred.end(),
                                    [&](const DeferredUnmap &deferred) { return deferred.address == address; });
    return found == m_deferred.end() ? nullptr : &*found;
}

/// `known_as` is the handle, or 0 for the deferred unmap of a mapping whose allocation was not seen: the handle may be that
/// of any of these.
bool ForeignMappings::defer_free(std::uint64_t handle, std::uint64_t known_as) {
    for (DeferredUnmap &deferred : m_deferred)
        if (handle != 0 && deferred.handle == known_as && !deferred.freed) {
            deferred.handle = handle;
            deferred.freed = true;
            return true;
        }
    return false;
}

ForeignMappings::Free ForeignMappings::begin_free(std::uint64_t handle) {
    const os::MutexLock lock(m_mutex);
    Free free;
    if (const auto known = m_allocations.extract(handle))
        free.size = known.mapped();
    free.deferred = defer_free(handle, handle);
    return free;
}

bool ForeignMappings::end_failed_free(std::uint64_t handle, const Free &free) {
    const os::MutexLock lock(m_mutex);
    if (free.size == 0)
        return defer_free(handle, 0);
    m_allocations[handle] = free.size; // the program gets the refusal
    return false;
}

void ForeignMappings::set_deferred_count() { m_deferred_count.store(m_deferred.size(), std::memory_order_release); }

void ForeignMappings::retry_deferred_unmaps(RetryPace::Need need) {
    const bool needed = need != RetryPace::Need::none;
    if (deferred_unmaps() == 0 && !needed) // else the last of them may not be freed yet
        return;
    if (!m_retry_mutex.try_lock()) { // another thread retries them
        if (!needed)
            return;
        m_retry_mutex.lock();
    }
    const os::MutexLock retrying(m_retry_mutex, std::adopt_lock);
    std::vector<DeferredUnmap> waiting;
    {
        const os::MutexLock lock(m_mutex);
        for (DeferredUnmap &deferred : m_deferred) {
            deferred.trying = deferred.pace.is_due(need);
            if (deferred.trying)
                waiting.push_back(deferred);
        }
    }
    for (const DeferredUnmap &next : waiting) {
        const bool unmapped = m_session.usable() && m_session.device().unmap(next.address).has_value();
        std::uint64_t freed = 0; // the handle, if the framework has freed it
        {
            const os::MutexLock lock(m_mutex);
            const auto known = std::find_if(m_deferred.begin(), m_deferred.end(),
                                            [&](const DeferredUnmap &deferred) { return deferred.id == next.id; });
            if (known == m_deferred.end())
                continue; // the session has ended
            known->trying = false;
            if (!unmapped) {
                known->pace.note_refusal();
                continue;
            }
            freed = known->freed ? known->handle : 0;
            m_deferred.erase(known);
            set_deferred_count();
        }
        if (freed != 0)
            thunk::release_or_report([&] { return m_session.device().free(freed); });
        m_ended_count.fetch_add(1, std::memory_order_release);
    }
}

} // namespace gaudi
