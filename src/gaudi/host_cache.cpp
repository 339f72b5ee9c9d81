// SPDX-License-Identifier: BSD-3-Clause
#include "host_cache.h"

#include <algorithm>
#include <utility>

namespace gaudi {
namespace {

constexpr std::uint64_t kPage = 4096;

/// Held for a few instructions that neither allocate nor call anything.
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
    if (only && only->m_forks == forks())
        return *only;
    auto *mine = new HostCache(only);
    if (s_only.compare_exchange_strong(only, mine, std::memory_order_acq_rel))
        return *mine;
    delete mine; // another thread was faster
    return *only;
}

void HostCache::drop_overlapping(std::uint64_t begin, std::uint64_t end,
                                 std::list<std::shared_ptr<HostRange>> &dropped) {
    auto at = m_entries.lower_bound(begin);
    if (at != m_entries.begin()) {
        const auto &before = std::prev(at)->second.range;
        if (before->address() + before->length() > begin)
            --at;
    }
    while (at != m_entries.end() && at->first < end) {
        m_bytes -= at->second.range->length();
        m_by_use.erase(at->second.used);
        dropped.push_back(std::move(at->second.range));
        at = m_entries.erase(at);
    }
}

std::shared_ptr<HostRange> HostCache::find(std::uint64_t address, std::uint64_t length, std::size_t cards,
                                           std::uint64_t worth) {
    if (!enabled())
        return nullptr;
    std::list<std::shared_ptr<HostRange>> dropped; // unmapped after the mutex is free
    const std::lock_guard guard(m_mutex);
    take_news(dropped);
    auto after = m_entries.upper_bound(address);
    if (after != m_entries.begin()) {
        auto &entry = std::prev(after)->second;
        if (entry.range->contains(address, length)) {
            m_by_use.splice(m_by_use.begin(), m_by_use, entry.used);
            return entry.range;
        }
    }
    const std::uint64_t begin = address & ~(kPage - 1);
    if (std::uint64_t &asked = m_asked[begin / kPage % m_asked.size()]; length < worth && asked != begin) {
        asked = begin;
        return nullptr;
    }
    const std::uint64_t end = (address + length + kPage - 1) & ~(kPage - 1);
    drop_overlapping(begin, end, dropped);
    while (!m_by_use.empty() && (m_entries.size() >= kMaxEntries || m_bytes + (end - begin) > kMaxBytes)) {
        const std::uint64_t oldest = m_by_use.back();
        drop_overlapping(oldest, oldest + 1, dropped);
    }
    auto range = std::make_shared<HostRange>(begin, end - begin, cards);
    m_by_use.push_front(begin);
    m_entries.emplace(begin, Entry{range, m_by_use.begin()});
    m_bytes += end - begin;
    return range;
}

void HostCache::take_news(std::list<std::shared_ptr<HostRange>> &dropped) {
    std::array<News, kNews> news;
    std::size_t count = 0;
    {
        const Spin spin(m_news_lock);
        count = std::exchange(m_news_count, 0);
        std::copy_n(m_news.begin(), std::min(count, kNews), news.begin());
    }
    if (count > kNews)
        drop_overlapping(0, UINT64_MAX, dropped);
    else
        for (std::size_t i = 0; i < count; ++i)
            drop_overlapping(news[i].begin, news[i].end, dropped);
}

void HostCache::forget(std::uint64_t address, std::uint64_t length) {
    HostCache *only = s_only.load(std::memory_order_acquire);
    if (!only || !only->enabled() || only->m_forks != forks())
        return; // nothing is in it
    const std::uint64_t end = address + length < address ? UINT64_MAX : address + length;
    const Spin spin(only->m_news_lock);
    if (only->m_news_count < kNews)
        only->m_news[only->m_news_count] = {address, end};
    if (only->m_news_count <= kNews)
        ++only->m_news_count;
}

} // namespace gaudi
