// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "region.h"

#include <cstdint>
#include <vector>

namespace gaudi {

/// Region objects that hold no mapping now. As many exist as were ever in use at once; none is freed.
class RegionPool {
public:
    static RegionPool &get();

    /// For a foreign mapping.
    Region *take();
    /// For a driver block of `size` bytes, with the bookkeeping for its allocations.
    Region *take_block(std::uint64_t size);
    void give_back(Region &region);

private:
    RegionPool() = default;

    os::Mutex m_mutex{rank::kRegionPool};
    std::vector<Region *> m_plain GAUDI_GUARDED_BY(m_mutex);
    std::vector<Region *> m_blocks GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi
