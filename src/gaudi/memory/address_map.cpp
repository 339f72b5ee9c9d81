// SPDX-License-Identifier: BSD-3-Clause
#include "address_map.h"

#include <algorithm>

namespace gaudi {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

} // namespace

AddressMap::Table::Table(std::uint32_t size, Table *before)
    : capacity(size), begins(new std::atomic<std::uint64_t>[size]), entries(new Entry[size]), older(before) {}

void AddressMap::Table::copy(std::uint32_t to, const Table &from, std::uint32_t index) {
    begins[to].store(from.begins[index].load(kRelaxed), std::memory_order_release);
    entries[to].end.store(from.entries[index].end.load(kRelaxed), std::memory_order_release);
    entries[to].region.store(from.entries[index].region.load(kRelaxed), std::memory_order_release);
}

AddressMap::AddressMap() : m_table(new Table(64, nullptr)) {}

AddressMap::~AddressMap() { delete m_table.load(kRelaxed); }

void AddressMap::grow() {
    Table *old = m_table.load(kRelaxed);
    auto *larger = new Table(old->capacity * 2, old);
    for (std::uint32_t i = 0; i < m_count.load(kRelaxed); ++i)
        larger->copy(i, *old, i);
    m_table.store(larger, std::memory_order_release); // sizes double, so the old ones together are no larger
}

void AddressMap::insert(std::uint64_t begin, std::uint64_t length, Region *region) {
    const os::MutexLock lock(m_writers);
    if (m_count.load(kRelaxed) == m_table.load(kRelaxed)->capacity)
        grow();
    Table &table = *m_table.load(kRelaxed);
    std::uint32_t at = m_count.load(kRelaxed);
    m_version.fetch_add(1, std::memory_order_acq_rel);
    for (; at > 0 && table.begins[at - 1].load(kRelaxed) > begin; --at)
        table.copy(at, table, at - 1);
    table.begins[at].store(begin, std::memory_order_release);
    table.entries[at].end.store(begin + length, std::memory_order_release);
    table.entries[at].region.store(region, std::memory_order_release);
    m_count.fetch_add(1, std::memory_order_release);
    m_lowest.store(std::min(m_lowest.load(kRelaxed), begin), kRelaxed);
    m_highest.store(std::max(m_highest.load(kRelaxed), begin + length), kRelaxed);
    m_version.fetch_add(1, std::memory_order_release);
}

void AddressMap::remove(std::uint64_t begin, const Region *region) {
    const os::MutexLock lock(m_writers);
    Table &table = *m_table.load(kRelaxed);
    const std::uint32_t count = m_count.load(kRelaxed);
    std::uint32_t at = first_at(begin);
    const auto begins_here = [&] { return at < count && table.begins[at].load(kRelaxed) == begin; };
    while (begins_here() && table.entries[at].region.load(kRelaxed) != region)
        ++at; // two have the same address for a moment, when one was replaced without the hooks
    if (!begins_here())
        return;
    m_version.fetch_add(1, std::memory_order_acq_rel);
    for (; at + 1 < count; ++at)
        table.copy(at, table, at + 1);
    m_count.store(count - 1, std::memory_order_release);
    m_version.fetch_add(1, std::memory_order_release);
}

/// The first that begins at `begin` or above.
std::uint32_t AddressMap::first_at(std::uint64_t begin) const {
    const std::atomic<std::uint64_t> *begins = m_table.load(kRelaxed)->begins.get();
    const auto *end = begins + m_count.load(kRelaxed);
    return static_cast<std::uint32_t>(
        std::lower_bound(begins, end, begin,
                         [](const auto &entry, std::uint64_t wanted) { return entry.load(kRelaxed) < wanted; }) -
        begins);
}

Region *AddressMap::search(std::uint64_t address) const {
    while (true) {
        const std::uint32_t version = m_version.load(std::memory_order_acquire);
        const Table *table = m_table.load(std::memory_order_acquire);
        const std::atomic<std::uint64_t> *begins = table->begins.get();
        std::uint32_t at = 0;
        // A binary search without branches, which could not be predicted.
        const std::uint32_t count = std::min(m_count.load(std::memory_order_acquire), table->capacity);
        for (std::uint32_t left = count; left > 1;) {
            const std::uint32_t half = left / 2;
            at += begins[at + half].load(std::memory_order_acquire) <= address ? half : 0;
            left -= half;
        }
        Region *found = nullptr;
        if (count > 0 && begins[at].load(std::memory_order_acquire) <= address &&
            address < table->entries[at].end.load(std::memory_order_acquire))
            found = table->entries[at].region.load(std::memory_order_acquire);
        if ((version & 1) == 0 && m_version.load(kRelaxed) == version)
            return found;
    }
}

} // namespace gaudi
