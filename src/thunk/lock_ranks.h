// SPDX-License-Identifier: BSD-3-Clause
// The locks of this layer, which the device layer above calls with its own locks held.
#pragma once

#include "os/lock_rank.h"

namespace gaudi::thunk {

struct Rank {
    static constexpr os::LockRank libraries{800, "loaded libhl-thunk"};
};

} // namespace gaudi::thunk
