// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cli/doctor/facts.h"
#include "cli/sentence.h"

#include <string>

namespace gaudi::cli::bench {

/// The NIC nearest to a card of those that register dma-bufs: the first where places are not known. The error says why
/// there is none.
OrSentence<std::string> find_nearest_nic(const doctor::Facts &facts, const std::string &card_bus_id);

} // namespace gaudi::cli::bench
