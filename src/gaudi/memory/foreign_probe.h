// SPDX-License-Identifier: BSD-3-Clause
// Finds foreign mappings that the memory hooks did not see. The driver exports a mapping only from exactly its start and
// only up to its end, so tries of exports find both.
#pragma once

#include "gaudi/card/cards.h"
#include "region.h"

#include <cstdint>

namespace gaudi {

/// The mapping that holds `address` on a card that this process has open; null for none. Waits for other probes, for driver
/// calls (bounded where the driver has a shortage), for an unmap of the framework at that address, and calls SynapseAI and
/// SCAL. Null at once while this thread notifies listeners.
Region *probe_mapping(Cards &cards, std::uint64_t address);

} // namespace gaudi
