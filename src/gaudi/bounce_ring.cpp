// SPDX-License-Identifier: BSD-3-Clause
#include "bounce_ring.h"

#include <sys/mman.h>

namespace gaudi {

BounceRing::~BounceRing() {
    m_range.reset();
    if (m_memory && m_forks == forks()) // a forked child does not have it
        munmap(m_memory, kBytes);
}

bool BounceRing::set_up(std::size_t cards) {
    if (m_memory)
        return true;
    void *memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, kBytes, MADV_DONTFORK);
    m_memory = memory;
    m_range = std::make_unique<HostRange>(reinterpret_cast<std::uint64_t>(memory), kBytes, cards);
    m_stretches.resize(kStretches);
    return true;
}

} // namespace gaudi
