// SPDX-License-Identifier: BSD-3-Clause
#include "host_cache.h"

#include <algorithm>
#include <utility>

namespace gaudi {
namespace {

constexpr std::uint64_t kPage = 4096;

/// A lock for a few instructions that neither allocate nor call anything: it is taken inside free().
class Spin {
public:
    explicit Spin(std::atomic_flag &flag) : m_flag(flag) {
        while (m_flag.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~Spin() { m_flag.clear(std::memory_order_release); }
    Spin(const Spin &) = delete;
    Spin &operator=(const Spin &) = delete;

private:
    std::atomic_flag &m_flag;
};

} // namespace

std::atomic<HostCache *> HostCache::s_only{nullptr};

HostCache &HostCache::get() {
    HostCache *only = s_only.load(std::memory_order_acquire);
    if (only && only->m_fork == fork_count())
        return *only;
    auto *mine = new HostCache(only);
    if (s_only.compare_exchange_strong(only, mine, std::memory_order_acq_rel))
        return *mine;
    delete mine; // another thread was faster
    return *only;
}

void HostCache::drop_overlapping(std::uint64_t begin, std::uint64_t end, Dropped &dropped) {
    auto at = m_entries.lower_bound(begin);
    if (at != m_entries.begin()) {
        const auto &before = std::prev(at)->second.range;
        if (before->address() + before->length() > begin)
            --at;
    }
    while (at != m_entries.end() && at->first < end) {
        m_by_use.erase(at->second.used);
        dropped.push_back(std::move(at->second.range));
        at = m_entries.erase(at);
    }
}

std::shared_ptr<HostRange> HostCache::find(std::uint64_t address, std::uint64_t length, std::size_t cards,
                                           std::uint64_t worth) {
    if (!enabled())
        return nullptr;
    Dropped dropped; // destroyed after the lock is released
    const os::MutexLock lock(m_mutex);
    apply_notes(dropped);
    auto after = m_entries.upper_bound(address);
    if (after != m_entries.begin()) {
        auto &entry = std::prev(after)->second;
        if (entry.range->contains(address, length)) {
            m_by_use.splice(m_by_use.begin(), m_by_use, entry.used);
            return entry.range;
        }
    }
    const std::uint64_t begin = address & ~(kPage - 1);
    if (std::uint64_t &copied = m_copied_once[begin / kPage % m_copied_once.size()];
        length < worth && copied != begin) {
        copied = begin;
        return nullptr;
    }
    const std::uint64_t end = (address + length + kPage - 1) & ~(kPage - 1);
    drop_overlapping(begin, end, dropped);
    while (m_entries.size() >= kMaxRanges) {
        const std::uint64_t oldest = m_by_use.back();
        drop_overlapping(oldest, oldest + 1, dropped);
    }
    auto range = std::make_shared<HostRange>(begin, end - begin, cards, HostRange::Residency::cached);
    m_by_use.push_front(begin);
    m_entries.emplace(begin, Entry{range, m_by_use.begin()});
    return range;
}

void HostCache::apply_notes(Dropped &dropped) {
    std::array<Note, kNotes> notes;
    std::size_t count = 0;
    {
        const Spin spin(m_notes_lock);
        count = std::exchange(m_note_count, 0);
        std::copy_n(m_notes.begin(), std::min(count, kNotes), notes.begin());
    }
    if (count > kNotes)
        drop_overlapping(0, UINT64_MAX, dropped);
    else
        for (std::size_t i = 0; i < count; ++i)
            drop_overlapping(notes[i].begin, notes[i].end, dropped);
}

void HostCache::forget(std::uint64_t address, std::uint64_t length) {
    HostCache *only = s_only.load(std::memory_order_acquire);
    if (!only || !only->enabled() || only->m_fork != fork_count())
        return; // the cache is empty
    const std::uint64_t end = address + length < address ? UINT64_MAX : address + length;
    const Spin spin(only->m_notes_lock);
    if (only->m_note_count < kNotes)
        only->m_notes[only->m_note_count] = {address, end};
    if (only->m_note_count <= kNotes)
        ++only->m_note_count;
}

} // namespace gaudi
