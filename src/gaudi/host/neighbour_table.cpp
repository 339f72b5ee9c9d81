// SPDX-License-Identifier: BSD-3-Clause
#include "neighbour_table.h"

#include <utility>

namespace gaudi {

void NeighbourTable::add(AccountedRange &range) {
    if (m_count >> m_bits != 0 || m_bits == 0)
        grow();
    link(range, begin);
    link(range, end);
    ++m_count;
}

void NeighbourTable::remove(AccountedRange &range) {
    unlink(range, begin);
    unlink(range, end);
    --m_count;
}

void NeighbourTable::link(AccountedRange &range, Edge edge) {
    AccountedRange *&first = m_chains[edge][place(address_of(range, edge))];
    range.m_links[edge] = {first, &first};
    if (first)
        first->m_links[edge].previous = &range.m_links[edge].next;
    first = &range;
}

void NeighbourTable::unlink(AccountedRange &range, Edge edge) {
    const auto [next, previous] = std::exchange(range.m_links[edge], {});
    *previous = next;
    if (next)
        next->m_links[edge].previous = previous;
}

void NeighbourTable::grow() {
    constexpr unsigned kFirstBits = 8;
    const unsigned bits = m_bits == 0 ? kFirstBits : m_bits + 1;
    std::array<std::vector<AccountedRange *>, 2> grown;
    for (auto &chains : grown)
        chains.resize(std::size_t{1} << bits); // first: it may throw
    const auto old = std::exchange(m_chains, std::move(grown));
    m_bits = bits;
    for (const Edge edge : {begin, end})
        for (AccountedRange *range : old[edge])
            while (range)
                link(*std::exchange(range, range->m_links[edge].next), edge);
}

} // namespace gaudi
