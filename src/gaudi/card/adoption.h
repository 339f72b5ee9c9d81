// SPDX-License-Identifier: BSD-3-Clause
// The descriptors by which this process holds a card. A card serves one open file description at a time, so where the
// framework or the program has opened it, the way to it is a duplicate of that descriptor.
#pragma once

#include "card_identity.h"
#include "result.h"

#include <optional>
#include <vector>

namespace gaudi {

/// The lowest descriptor by which the process holds the card's compute node, `except` left out; -1 for none, and nothing
/// where the answer cannot be found. Descriptors of other files are only looked at, never called.
std::optional<int> find_descriptor(const CardIdentity &card, const std::vector<int> &except = {});

/// Whether `fd` is the card's compute node; an error where the answer cannot be found now. libhl-thunk gets only a
/// descriptor that NodeProof accepts.
Result<bool> is_compute_node(const CardIdentity &card, int fd);

} // namespace gaudi
