// SPDX-License-Identifier: BSD-3-Clause
// Which device node is behind a descriptor, so that a replay can tell duplicates and inherited descriptors.
#pragma once

#include <cstdint>

namespace gaudi::record {

/// Equal for all descriptors of one file, different for others; 0 for none. `often`: the call is too frequent for a system
/// call, so the answer of the last other call with this descriptor is taken.
std::uint64_t node_of(int fd, bool often) noexcept;

/// After a close: the number may be another file's next.
void forget_node(int fd) noexcept;

} // namespace gaudi::record
