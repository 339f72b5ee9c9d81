// SPDX-License-Identifier: BSD-3-Clause
// How large the next driver block of an arena is. A block of just the pages that one allocation needs wastes the rest of
// its last page, up to half of the card for allocations of 500 MiB on pages of 768 MiB. A block of several pages is shared
// by several such allocations. But a registration exports the whole block, so blocks stay as small as the waste allows.
#pragma once

#include <cstdint>

namespace gaudi {

/// The memory of one card, as its arena may use it, in bytes.
struct BlockSpace {
    std::uint64_t unit = 0;   // blocks are multiples of it
    std::uint64_t held = 0;   // in blocks
    std::uint64_t wasted = 0; // of that: what allocations as large as the first one of each block leave over
    std::uint64_t left = 0;   // not taken from the driver yet
};

/// The size of the block to take for an allocation of `length` bytes that fits in no block; 0 if no block for it is left.
///
/// The promise: allocations of any one size up to 4 GiB fill at least 95 % of a card of 95 GiB. As long as that can be
/// kept with later blocks of moderate size, the block is only as large as this allocation needs.
std::uint64_t plan_block(std::uint64_t length, const BlockSpace &space);

/// What allocations of `length` bytes leave over of a block of `size` bytes.
inline std::uint64_t left_over(std::uint64_t size, std::uint64_t length) { return size % length; }

} // namespace gaudi
