// SPDX-License-Identifier: BSD-3-Clause
// The lock of this room, in the order of gaudi/card/lock_ranks.h: sessions begin with the lock of their card held.
#pragma once

#include "os/lock_rank.h"

namespace gaudi::rank {

inline constexpr os::LockRank kCounterPage{486, "publication of counters"};

} // namespace gaudi::rank
