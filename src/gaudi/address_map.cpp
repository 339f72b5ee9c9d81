// SPDX-License-Identifier: BSD-3-Clause
#include "address_map.h"

#include <algorithm>

namespace gaudi {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

} // namespace

AddressMap::AddressMap() : m_table(new Table{64, new Entry[64], nullptr}) {}

AddressMap::~AddressMap() {
    for (Table *table = m_table.load(kRelaxed); table;) {
        Table *older = table->older;
        delete[] table->entries;
        delete table;
        table = older;
    }
}

void AddressMap::copy(Entry &to, const Entry &from) {
    to.begin.store(from.begin.load(kRelaxed), std::memory_order_release);
    to.end.store(from.end.load(kRelaxed), std::memory_order_release);
    to.region.store(from.region.load(kRelaxed), std::memory_order_release);
}

void AddressMap::grow() {
    Table *old = m_table.load(kRelaxed);
    auto *larger = new Table{old->capacity * 2, new Entry[old->capacity * 2], old};
    for (std::uint32_t i = 0; i < m_count.load(kRelaxed); ++i)
        copy(larger->entries[i], old->entries[i]);
    m_table.store(larger, std::memory_order_release); // sizes double, so the old ones together are no larger
}

void AddressMap::insert(std::uint64_t begin, std::uint64_t length, Region *region) {
    const std::lock_guard guard(m_writers);
    if (m_count.load(kRelaxed) == m_table.load(kRelaxed)->capacity)
        grow();
    Entry *entries = m_table.load(kRelaxed)->entries;
    std::uint32_t at = m_count.load(kRelaxed);
    m_version.fetch_add(1, std::memory_order_acq_rel);
    for (; at > 0 && entries[at - 1].begin.load(kRelaxed) > begin; --at)
        copy(entries[at], entries[at - 1]);
    entries[at].begin.store(begin, std::memory_order_release);
    entries[at].end.store(begin + length, std::memory_order_release);
    entries[at].region.store(region, std::memory_order_release);
    m_count.fetch_add(1, std::memory_order_release);
    m_lowest.store(std::min(m_lowest.load(kRelaxed), begin), kRelaxed);
    m_highest.store(std::max(m_highest.load(kRelaxed), begin + length), kRelaxed);
    m_version.fetch_add(1, std::memory_order_release);
}

void AddressMap::remove(std::uint64_t begin) {
    const std::lock_guard guard(m_writers);
    Entry *entries = m_table.load(kRelaxed)->entries;
    const std::uint32_t count = m_count.load(kRelaxed);
    std::uint32_t at = 0;
    while (at < count && entries[at].begin.load(kRelaxed) != begin)
        ++at;
    if (at == count)
        return;
    m_version.fetch_add(1, std::memory_order_acq_rel);
    for (; at + 1 < count; ++at)
        copy(entries[at], entries[at + 1]);
    m_count.store(count - 1, std::memory_order_release);
    m_version.fetch_add(1, std::memory_order_release);
}

Region *AddressMap::search(std::uint64_t address) const {
    while (true) {
        const std::uint32_t version = m_version.load(std::memory_order_acquire);
        const Table *table = m_table.load(std::memory_order_acquire);
        const Entry *entries = table->entries;
        std::uint32_t low = 0;
        std::uint32_t high = std::min(m_count.load(std::memory_order_acquire), table->capacity);
        while (low < high) {
            const std::uint32_t middle = (low + high) / 2;
            if (entries[middle].begin.load(std::memory_order_acquire) <= address)
                low = middle + 1;
            else
                high = middle;
        }
        Region *found = nullptr;
        if (low > 0 && address < entries[low - 1].end.load(std::memory_order_acquire))
            found = entries[low - 1].region.load(std::memory_order_acquire);
        if ((version & 1) == 0 && m_version.load(kRelaxed) == version)
            return found;
    }
}

} // namespace gaudi
