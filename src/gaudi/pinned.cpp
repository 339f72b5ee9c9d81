// SPDX-License-Identifier: BSD-3-Clause
#include "pinned.h"

#include "host_range.h"
#include "settings.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace gaudi {

std::atomic<std::uint64_t> Pinned::s_clock{1};

Pinned &Pinned::get() {
    static auto *only = new Pinned; // ranges end in UCX's last destructors
    return *only;
}

bool Pinned::make_room(const HostRange &whom, std::uint64_t length) {
    const std::uint64_t most = settings().max_pinned.load(std::memory_order_relaxed);
    const std::size_t most_mappings = settings().max_pinned_mappings.load(std::memory_order_relaxed);
    if (length > most)
        return false;
    std::vector<HostMapping> later; // after the mutex
    const std::lock_guard guard(m_mutex);
    while (m_length > most - length || m_mappings >= most_mappings)
        if (!let_one_go(whom, later))
            return false;
    return true;
}

bool Pinned::let_one_go(const HostRange &whom) {
    std::vector<HostMapping> later;
    const std::lock_guard guard(m_mutex);
    return let_one_go(whom, later);
}

bool Pinned::let_one_go(const HostRange &whom, std::vector<HostMapping> &later) {
    // Mostly the first one leaves: a heap is enough of an order.
    std::vector<Entry *> by_use;
    by_use.reserve(m_entries.size());
    for (Entry &entry : m_entries)
        if (entry.range->leaves() && entry.range != &whom)
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
        m_length -= entry->length;
        m_mappings -= entry->mappings;
        m_entries.erase(m_entries.begin() + (entry - m_entries.data()));
        return true;
    }
    return false;
}

bool Pinned::add(HostRange &range, std::uint64_t length, const Card &card, std::uint64_t life) {
    const std::lock_guard guard(m_mutex);
    if (card.life() != life)
        return false;
    s_clock.fetch_add(1, std::memory_order_relaxed);
    if (range.leaves()) {
        m_length += length;
        ++m_mappings;
    }
    const auto known =
        std::find_if(m_entries.begin(), m_entries.end(), [&](const Entry &entry) { return entry.range == &range; });
    if (known == m_entries.end()) {
        m_entries.push_back({&range, length, 1});
    } else {
        known->length += length;
        ++known->mappings;
    }
    return true;
}

void Pinned::leave(const Card &card) {
    // Who maps a range has its mutex and waits for ours: theirs is only tried. The call that maps may also wait for a
    // framework that waits for us, so it is not waited for without end; what it maps on the card then is of a life that is over.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    for (bool all = false; !all;) {
        all = true;
        {
            const std::lock_guard guard(m_mutex);
            for (Entry &entry : m_entries) {
                const std::optional<unsigned> ended = entry.range->unmap_from(card);
                if (!ended)
                    all = all && entry.range->being_mapped() && std::chrono::steady_clock::now() > limit;
                if (ended.value_or(0) == 0)
                    continue;
                const std::uint64_t share = entry.length / entry.mappings * *ended;
                entry.length -= share;
                entry.mappings -= *ended;
                if (entry.range->leaves()) {
                    m_length -= share;
                    m_mappings -= *ended;
                }
            }
            std::erase_if(m_entries, [](const Entry &entry) { return entry.mappings == 0; });
        }
        if (!all)
            std::this_thread::yield();
    }
}

void Pinned::keep(std::shared_ptr<void> touched) {
    const std::lock_guard guard(m_mutex);
    m_kept.push_back(std::move(touched));
}

std::size_t Pinned::kept() {
    const std::lock_guard guard(m_mutex);
    return m_kept.size();
}

void Pinned::remove(HostRange &range) {
    std::vector<HostMapping> later; // after the mutex
    const std::lock_guard guard(m_mutex);
    range.end_mappings(later);
    const auto known =
        std::find_if(m_entries.begin(), m_entries.end(), [&](const Entry &entry) { return entry.range == &range; });
    if (known == m_entries.end())
        return;
    if (range.leaves()) {
        m_length -= known->length;
        m_mappings -= known->mappings;
    }
    m_entries.erase(known);
}

} // namespace gaudi
