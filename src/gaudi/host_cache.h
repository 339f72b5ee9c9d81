// SPDX-License-Identifier: BSD-3-Clause
// Mappings of host memory that nobody registered, kept for the next copy from the same place. It is only as good as the
// news of memory that went away: without those (UCX's memory events) it stays off.
#pragma once

#include "forks.h"
#include "host_range.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

namespace gaudi {

class HostCache {
public:
    static HostCache &get();

    void enable() { m_enabled.store(true, std::memory_order_release); }
    bool enabled() const { return m_enabled.load(std::memory_order_acquire); }

    /// A range that holds [address, address + length); null when the cache is off, or when memory shorter than `worth` is
    /// asked for the first time: who copies from it once is better off without.
    std::shared_ptr<HostRange> find(std::uint64_t address, std::uint64_t length, std::size_t cards,
                                    std::uint64_t worth = 0);
    /// Memory that is about to go away; no later find() gives a mapping of it. Called from inside free() and munmap() on
    /// any thread, with the allocator's lock held: it may neither allocate nor free, and only makes a note.
    static void forget(std::uint64_t address, std::uint64_t length);

private:
    explicit HostCache(HostCache *parents) : m_parents(parents), m_enabled(parents && parents->enabled()) {}

    struct Entry {
        std::shared_ptr<HostRange> range;
        std::list<std::uint64_t>::iterator used;
    };
    static constexpr std::size_t kMaxEntries = 512;
    static constexpr std::uint64_t kMaxBytes = 8ull << 30;

    void take_news(std::list<std::shared_ptr<HostRange>> &dropped);
    void drop_overlapping(std::uint64_t begin, std::uint64_t end, std::list<std::shared_ptr<HostRange>> &dropped);

    static std::atomic<HostCache *> s_only;

    const unsigned m_forks = forks();
    // Kept: to end its mappings would end those of the process that we were forked off.
    [[maybe_unused]] HostCache *const m_parents;
    std::atomic<bool> m_enabled;
    std::mutex m_mutex;
    std::map<std::uint64_t, Entry> m_entries; // by begin; they do not overlap
    std::list<std::uint64_t> m_by_use;        // most recent first
    std::uint64_t m_bytes = 0;
    std::array<std::uint64_t, 256> m_asked{}; // pages that were asked for once

    struct News {
        std::uint64_t begin, end;
    };
    static constexpr std::size_t kNews = 256;
    std::atomic_flag m_news_lock = ATOMIC_FLAG_INIT;
    std::array<News, kNews> m_news;
    std::size_t m_news_count = 0; // beyond kNews: everything is to be forgotten
};

} // namespace gaudi
