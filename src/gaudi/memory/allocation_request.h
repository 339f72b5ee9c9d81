// SPDX-License-Identifier: BSD-3-Clause
// A request for device memory, and the refusals that need no card.
#pragma once

#include "gaudi/card/card.h"

#include <cstdint>

namespace gaudi {

struct AllocationRequest {
    std::uint64_t length = 0;
    std::uint64_t alignment = 0;      // 0 or 1 is none
    std::uint64_t fixed = 0;          // exactly there, or nowhere
    std::uint64_t limit = UINT64_MAX; // bytes of driver blocks that the card may hold
    bool tentative = false;           // a look whether the card has memory: larger requests rely on the answer
};

/// Refuses requests that no card of this size can serve, before sums of them overflow.
Result<void> check(const Card &card, const AllocationRequest &request);
/// The refusal of a request that exceeds the limit of a card of which `held` bytes are held.
Error error_exceeds(const Card &card, std::uint64_t limit, std::uint64_t held);

} // namespace gaudi
