// SPDX-License-Identifier: BSD-3-Clause
// Stores the packets of a submission, before the program can change them.
#pragma once

#include "thunk/abi.h"

#include <cstddef>
#include <cstdint>

namespace gaudi::record {

inline constexpr std::size_t kMostPacketBytes = 1 << 20; // of one submission

/// Writes a record with the chunks and the packets of command buffers that lie in host memory which this process mapped.
void store_submission(std::uint64_t node, const void *restore, std::uint32_t restore_count, const void *execute,
                      std::uint32_t execute_count) noexcept;

} // namespace gaudi::record
