// SPDX-License-Identifier: BSD-3-Clause
// A card that somebody else in this process has opened. A card serves one open file description at a time, so the only
// way to it is through theirs: a duplicate of their descriptor shares their context.
#pragma once

#include "thunk/device.h"

#include <optional>
#include <string>
#include <vector>

namespace gaudi {

/// The lowest descriptor by which the process holds the card's compute node, but for some that do not count; -1 for none,
/// and nothing where it cannot be found out. Descriptors of anything else are only looked at, never called.
std::optional<int> find_descriptor(const thunk::Library &library, const std::string &bus_id,
                                   const std::vector<int> &except = {});

/// Lets go of the card behind our duplicate. Its number stays taken, by `nothing`: another thread may be about to call on
/// it, and must not reach whatever would get the number next.
thunk::Result<void> adoption_ends(int duplicate, int nothing);

/// Whether `fd` is the card's compute node; an error where that cannot be found out now.
thunk::Result<bool> is_compute_node(const thunk::Library &library, const std::string &bus_id, int fd);

} // namespace gaudi
