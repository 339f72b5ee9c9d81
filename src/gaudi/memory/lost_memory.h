// SPDX-License-Identifier: BSD-3-Clause
// Addresses of memory that was lost when its card was reset. Programs still have pointers to it: UCX must not take them for
// host memory, which its processor would access, and no new memory may be found behind them.
#pragma once

#include "gaudi/card/card.h"
#include "gaudi/card/range.h"

#include <cstdint>
#include <map>
#include <optional>

namespace gaudi {

class LostMemory {
public:
    struct Found {
        const Card &card;
        Range range;
    };

    static LostMemory &get();

    void add(const Card &card, Range range);
    /// The driver has mapped other memory there.
    void remove(Range range);
    std::optional<Found> find(std::uint64_t address) const;
    /// The start of the first range at or above `range` and as long that holds no such address.
    std::uint64_t skip(Range range) const;

private:
    struct Entry {
        std::uint64_t length;
        const Card *card;
    };
    LostMemory() = default;

    mutable os::Mutex m_mutex{rank::kLostMemory};
    std::map<std::uint64_t, Entry> m_ranges GAUDI_GUARDED_BY(m_mutex); // by start; they do not overlap
};

} // namespace gaudi
