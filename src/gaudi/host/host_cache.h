// SPDX-License-Identifier: BSD-3-Clause
// Ranges of host memory that no user registered, kept for the next copy from the same place; how much of them stays mapped
// is HostMemory's decision. The cache depends on events for memory that goes away: without UCX's memory events it stays
// off.
#pragma once

#include "gaudi/card/forks.h"
#include "host_range.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

namespace gaudi {

class HostCache {
public:
    static constexpr std::size_t kMaxRanges = 65536; // known at once, mapped or not

    static HostCache &get();

    void enable() { m_enabled.store(true, std::memory_order_release); }
    bool enabled() const { return m_enabled.load(std::memory_order_acquire); }

    /// A range that holds [address, address + length). Null when the cache is off, and for memory shorter than `worth` at
    /// its first copy: memory that is copied once is better off staged.
    std::shared_ptr<HostRange> find(std::uint64_t address, std::uint64_t length, std::size_t cards,
                                    std::uint64_t worth = 0);
    /// Memory is about to go away; no later find() gives a range of it. Called from inside free() and munmap() on any
    /// thread, with the allocator's lock held: it neither allocates nor frees, and only takes a note.
    static void forget(std::uint64_t address, std::uint64_t length);

private:
    explicit HostCache(HostCache *inherited)
        : m_inherited(inherited), m_enabled(m_inherited && m_inherited->enabled()) {}

    using Dropped = std::list<std::shared_ptr<HostRange>>;
    struct Entry {
        std::shared_ptr<HostRange> range;
        std::list<std::uint64_t>::iterator used;
    };

    void apply_notes(Dropped &dropped) GAUDI_REQUIRES(m_mutex);
    void drop_overlapping(std::uint64_t begin, std::uint64_t end, Dropped &dropped) GAUDI_REQUIRES(m_mutex);

    static std::atomic<HostCache *> s_only;

    const unsigned m_fork = fork_count();
    // Kept in a forked child: to end its mappings would end those of the parent.
    HostCache *const m_inherited;
    std::atomic<bool> m_enabled;
    os::Mutex m_mutex{rank::kHostCache};
    std::map<std::uint64_t, Entry> m_entries GAUDI_GUARDED_BY(m_mutex);       // by begin; they do not overlap
    std::list<std::uint64_t> m_by_use GAUDI_GUARDED_BY(m_mutex);              // most recent first
    std::array<std::uint64_t, 256> m_copied_once GAUDI_GUARDED_BY(m_mutex){}; // pages

    struct Note {
        std::uint64_t begin, end;
    };
    static constexpr std::size_t kNotes = 256;
    std::atomic_flag m_notes_lock = ATOMIC_FLAG_INIT;
    std::array<Note, kNotes> m_notes;
    std::size_t m_note_count = 0; // beyond kNotes: every range is dropped
};

} // namespace gaudi
