// SPDX-License-Identifier: BSD-3-Clause
// Allocation of device memory on a card, whoever holds it.
#pragma once

#include "allocation_request.h"
#include "region.h"

#include <cstdint>

namespace gaudi {

/// Allocates on a card, which is opened for a request that it could serve and for no other. On a card that SynapseAI holds
/// the memory is SynapseAI's (FrameworkMemory), else it is the arena's. The caller holds no lock.
Result<std::uint64_t> allocate(Card &card, const AllocationRequest &request);
/// Frees an allocation of a live region; false when none starts at `address`. The caller holds no lock.
bool free_allocation(const Region &region, std::uint64_t address);

} // namespace gaudi
