// SPDX-License-Identifier: BSD-3-Clause
// Registered ranges, to be found by the address where they begin or end. The ranges themselves are the links of the chains:
// registering one neither allocates (but for the growth of the table) nor depends on how many there are.
#pragma once

#include "accounted_range.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gaudi {

class NeighbourTable {
public:
    enum Edge : std::size_t { begin, end };

    void add(AccountedRange &range);
    void remove(AccountedRange &range);

    /// A range whose edge is `address` and which `suits`; null when there is none among the first few.
    template <typename Suits>
    AccountedRange *find(Edge edge, std::uint64_t address, const Suits &suits) const {
        if (m_chains[edge].empty())
            return nullptr;
        unsigned tries = kTries;
        for (AccountedRange *range = m_chains[edge][place(address)]; range && tries > 0;
             range = range->m_links[edge].next, --tries)
            if (address_of(*range, edge) == address && suits(*range))
                return range;
        return nullptr;
    }

private:
    static constexpr unsigned kTries = 8; // memory that is registered a thousand times is one chain

    static std::uint64_t address_of(const AccountedRange &range, Edge edge) {
        return edge == begin ? range.address() : range.end();
    }
    std::size_t place(std::uint64_t address) const {
        return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15ull >> (64 - m_bits)); // 2^64 by the golden ratio
    }
    void link(AccountedRange &range, Edge edge);
    static void unlink(AccountedRange &range, Edge edge);
    void grow();

    std::array<std::vector<AccountedRange *>, 2> m_chains; // by edge; 2^m_bits of each
    unsigned m_bits = 0;
    std::size_t m_count = 0;
};

} // namespace gaudi
