// SPDX-License-Identifier: BSD-3-Clause
#include "region_pool.h"

#include <algorithm>
#include <memory>

namespace gaudi {

RegionPool &RegionPool::get() {
    static auto *only = new RegionPool;
    return *only;
}

Region *RegionPool::take() {
    {
        const os::MutexLock lock(m_mutex);
        if (!m_plain.empty()) {
            Region *region = m_plain.back();
            m_plain.pop_back();
            return region;
        }
    }
    return new Region;
}

Region *RegionPool::take_block(std::uint64_t size) {
    {
        const os::MutexLock lock(m_mutex);
        const auto fits = std::find_if(m_blocks.begin(), m_blocks.end(),
                                       [&](const Region *region) { return region->block()->heap.size() == size; });
        if (fits != m_blocks.end()) {
            Region *region = *fits;
            m_blocks.erase(fits);
            return region;
        }
    }
    auto region = std::make_unique<Region>();
    region->make_block(size);
    return region.release();
}

void RegionPool::give_back(Region &region) {
    const os::MutexLock lock(m_mutex);
    (region.block() ? m_blocks : m_plain).push_back(&region);
}

} // namespace gaudi
