// SPDX-License-Identifier: BSD-3-Clause
#include "bounce_ring.h"

#include <sys/mman.h>

namespace gaudi {
namespace {

constexpr std::uint64_t kLine = 64; // neighbours share no cache line

} // namespace

BounceRing::~BounceRing() {
    m_range.reset();
    if (m_memory)
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

std::optional<unsigned> BounceRing::take(std::uint64_t length) {
    const std::uint64_t needed = (length + kLine - 1) / kLine * kLine;
    const std::uint64_t at = m_head % kBytes;
    const std::uint64_t skipped = at + needed > kBytes ? kBytes - at : 0; // it does not run over the end
    if (m_head + skipped + needed - m_tail > kBytes || m_newest - m_oldest == kStretches)
        return {};
    const auto number = static_cast<unsigned>(m_newest++ % kStretches);
    m_head += skipped + needed;
    m_stretches[number] = {(m_head - needed) % kBytes, m_head, true};
    return number;
}

void BounceRing::give_back(unsigned stretch) {
    m_stretches[stretch].taken = false;
    for (; m_oldest != m_newest && !m_stretches[m_oldest % kStretches].taken; ++m_oldest)
        m_tail = m_stretches[m_oldest % kStretches].end;
}

} // namespace gaudi
