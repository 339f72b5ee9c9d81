// SPDX-License-Identifier: BSD-3-Clause
#include "bounce_ring.h"

#include "host_memory.h"

#include <sys/mman.h>

namespace gaudi {

BounceRing::~BounceRing() {
    if (m_abandoned != 0) {
        keep_memory();
        return;
    }
    m_range.reset();
    if (m_memory && m_fork == fork_count()) // a forked child has no such memory
        munmap(m_memory, kBytes);
}

void BounceRing::replace_memory() {
    for (std::uint64_t i = m_oldest; i != m_newest; ++i)
        if (const Slice &slice = m_slices[i % kSlices]; slice.taken && !slice.abandoned)
            return;
    keep_memory();
    m_head = m_tail = m_newest = m_oldest = 0;
    m_abandoned = 0;
}

void BounceRing::keep_memory() {
    m_range->abandon();
    HostMemory::get().keep(std::move(m_range));
    m_memory = nullptr;
}

bool BounceRing::set_up(std::size_t cards) {
    if (m_memory)
        return true;
    void *memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, kBytes, MADV_DONTFORK);
    m_cards = cards;
    m_memory = memory;
    m_range =
        std::make_shared<HostRange>(reinterpret_cast<std::uint64_t>(memory), kBytes, cards, HostRange::Residency::own);
    m_slices.assign(kSlices, {});
    return true;
}

} // namespace gaudi
