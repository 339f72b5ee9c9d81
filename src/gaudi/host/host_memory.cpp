// SPDX-License-Identifier: BSD-3-Clause
#include "host_memory.h"

#include "gaudi/card/settings.h"
#include "gaudi/counters/counter_page.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace gaudi {
namespace {

std::uint64_t max_bytes() {
    const std::uint64_t set = settings().max_mapped_host.value;
    if (set != Settings::kHalfOfMemory)
        return set;
    return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) / 2 * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

std::atomic<std::uint64_t> HostMemory::s_clock{1};

HostMemory &HostMemory::get() {
    static auto *only = new HostMemory; // never freed: ranges end in UCX's last destructors
    return *only;
}

std::vector<HostMemory::Entry>::iterator HostMemory::find(const AccountedRange &range) {
    return std::find_if(m_entries.begin(), m_entries.end(), [&](const Entry &entry) { return entry.range == &range; });
}

void HostMemory::set_length(std::uint64_t length) {
    m_length = length;
    counters().mapped_host_bytes.store(length, std::memory_order_relaxed);
}

bool HostMemory::make_room(const AccountedRange &range, std::uint64_t length) {
    const std::uint64_t limit = max_bytes();
    if (length > limit)
        return false;
    std::vector<HostMapping> later; // destroyed after the lock is released
    const os::MutexLock lock(m_mutex);
    while (m_length > limit - length || m_mappings >= kMaxMappings)
        if (!evict_one(range, later))
            return false;
    return true;
}

bool HostMemory::evict_one(const AccountedRange &except) {
    std::vector<HostMapping> later;
    const os::MutexLock lock(m_mutex);
    return evict_one(except, later);
}

bool HostMemory::evict_one(const AccountedRange &except, std::vector<HostMapping> &later) {
    // Mostly the first candidate is idle, so a heap is order enough.
    std::vector<Entry *> by_use;
    by_use.reserve(m_entries.size());
    for (Entry &entry : m_entries)
        if (entry.range->evictable() && entry.range != &except)
            by_use.push_back(&entry);
    const auto younger = [](const Entry *a, const Entry *b) {
        return std::pair(a->range->last_use(), a) > std::pair(b->range->last_use(), b);
    };
    std::make_heap(by_use.begin(), by_use.end(), younger);
    for (; !by_use.empty(); by_use.pop_back()) {
        std::pop_heap(by_use.begin(), by_use.end(), younger);
        const Entry *entry = by_use.back();
        if (!entry->range->unmap_if_idle(later))
            continue;
        set_length(m_length - entry->length);
        m_mappings -= entry->mappings;
        m_entries.erase(m_entries.begin() + (entry - m_entries.data()));
        return true;
    }
    return false;
}

bool HostMemory::add(AccountedRange &range, std::uint64_t length, const Session &session) {
    const os::MutexLock lock(m_mutex);
    if (!session.usable()) // unmap_all() may have been here already
        return false;
    s_clock.fetch_add(1, std::memory_order_relaxed);
    if (range.evictable()) {
        set_length(m_length + length);
        ++m_mappings;
    }
    if (const auto known = find(range); known != m_entries.end()) {
        known->length += length;
        ++known->mappings;
    } else {
        m_entries.push_back({&range, length, 1});
    }
    return true;
}

void HostMemory::unmap_all(const Session &session) {
    // The order of locks is range, then account; here it is reversed, so ranges are only tried. A thread that maps a range
    // holds its lock, and may wait for a framework that waits for this thread: after the limit it is left alone, because
    // add() refuses its mapping.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    for (bool all = false; !all;) {
        all = true;
        {
            const os::MutexLock lock(m_mutex);
            for (Entry &entry : m_entries) {
                const std::optional<unsigned> ended = entry.range->unmap_from(session);
                if (!ended)
                    all = all && entry.range->is_being_mapped() && std::chrono::steady_clock::now() > limit;
                if (ended.value_or(0) == 0)
                    continue;
                const std::uint64_t share = entry.length / entry.mappings * *ended;
                entry.length -= share;
                entry.mappings -= *ended;
                if (entry.range->evictable()) {
                    set_length(m_length - share);
                    m_mappings -= *ended;
                }
            }
            std::erase_if(m_entries, [](const Entry &entry) { return entry.mappings == 0; });
        }
        if (!all)
            std::this_thread::yield();
    }
}

void HostMemory::remove(AccountedRange &range) {
    std::vector<HostMapping> later; // destroyed after the lock is released
    const os::MutexLock lock(m_mutex);
    range.end_mappings(later); // under the lock, so that no session ends meanwhile
    const auto known = find(range);
    if (known == m_entries.end())
        return;
    if (range.evictable()) {
        set_length(m_length - known->length);
        m_mappings -= known->mappings;
    }
    m_entries.erase(known);
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
    return m_length;
}

} // namespace gaudi
