// SPDX-License-Identifier: BSD-3-Clause
// Posting many copies under one lock.
#include "cs_engine.h"

namespace gaudi {

void CsEngine::post_all(Direction direction, Transfer &first) {
    const os::MutexLock lock(m_mutex);
    const bool refused = failed();
    for (Transfer *transfer = &first, *next = nullptr; transfer; transfer = next) {
        next = transfer->next;
        if (refused) [[unlikely]] {
            transfer->failure = copy_failure();
            Tally(*this).add(*transfer);
            transfer->channel->finish(*transfer);
            continue;
        }
        count_posted();
        Lane &lane = lane_of(direction, transfer->length);
        transfer->next = nullptr;
        (lane.last ? lane.last->next : lane.first) = transfer;
        lane.last = transfer;
    }
    for (const std::uint64_t length : {std::uint64_t{0}, UINT64_MAX}) // the lanes of small and of large copies
        pump(lane_of(direction, length));
}

} // namespace gaudi
