// SPDX-License-Identifier: BSD-3-Clause
#include "lost_memory.h"

#include <iterator>

namespace gaudi {

LostMemory &LostMemory::get() {
    static auto *only = new LostMemory; // never freed: UCX calls in from its last destructors
    return *only;
}

void LostMemory::add(const Card &card, Range range) {
    const os::MutexLock lock(m_mutex);
    m_ranges.insert_or_assign(range.base, Entry{range.length, &card});
}

void LostMemory::remove(Range range) {
    const os::MutexLock lock(m_mutex);
    std::erase_if(m_ranges, [&](const auto &lost) {
        return lost.first < range.base + range.length && range.base < lost.first + lost.second.length;
    });
}

std::optional<LostMemory::Found> LostMemory::find(std::uint64_t address) const {
    const os::MutexLock lock(m_mutex);
    const auto after = m_ranges.upper_bound(address);
    if (after == m_ranges.begin())
        return {};
    const auto &[start, entry] = *std::prev(after);
    if (address - start >= entry.length)
        return {};
    return Found{*entry.card, {start, entry.length}};
}

std::uint64_t LostMemory::skip(Range range) const {
    const os::MutexLock lock(m_mutex);
    for (const auto &[start, entry] : m_ranges) // by address
        if (start < range.base + range.length && range.base < start + entry.length)
            range.base = start + entry.length;
    return range.base;
}

} // namespace gaudi
