// SPDX-License-Identifier: BSD-3-Clause
// The locks of this layer, which the modules above call with their own locks held.
#pragma once

#include "os/lock_rank.h"

namespace gaudi::ucx {

struct Rank {
    static constexpr os::LockRank hosts{900, "loaded UCX"};
    static constexpr os::LockRank proof{910, "proof of the UCX ABI"};
};

} // namespace gaudi::ucx
