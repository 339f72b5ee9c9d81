// SPDX-License-Identifier: BSD-3-Clause
// The order of all locks of the models, outermost first. The HCA uses the Gaudi's clock and is loaded with it in one image,
// so both have one order. Applications and UCX call the models with locks held, so these levels begin above the
// product's.
#pragma once

#include "os/lock_rank.h"

namespace soft {

struct Rank {
    using LockRank = gaudi::os::LockRank;

    static constexpr LockRank instance{1000, "model instance"};

    // ---- HCA
    static constexpr LockRank tables{1100, "fabric tables"};
    static constexpr LockRank engine{1110, "HCA engine"};
    static constexpr LockRank work_list{1120, "HCA work list"};
    static constexpr LockRank send_queue{1130, "send queue"};
    static constexpr LockRank atomics{1140, "RDMA atomics"};
    static constexpr LockRank imports{1150, "imported dma-bufs"};
    static constexpr LockRank entry{1160, "fabric entry"};
    static constexpr LockRank link{1170, "link"};
    static constexpr LockRank dmabufs{1180, "registered dma-bufs"};
    static constexpr LockRank objects{1190, "HCA objects"};
    static constexpr LockRank events{1200, "unacknowledged events"};

    // ---- Gaudi
    static constexpr LockRank card{1300, "card"};
    static constexpr LockRank queue_threads{1310, "queue threads"};
    static constexpr LockRank jobs{1320, "jobs of a queue"};
    static constexpr LockRank views{1330, "views of blocks"};
    static constexpr LockRank sides{1340, "sides of a block"};
    static constexpr LockRank clock{1350, "virtual clock"};
    static constexpr LockRank pinned_memory{1360, "pinned host memory"};
    static constexpr LockRank pin_table{1370, "table of pinned pages"};
};

} // namespace soft
