// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace softgaudi {

/// Where the pages of a host mapping are pinned, see pinned_memory.h. Lives in the card's shared state.
struct Pin {
    static constexpr uint64_t kSlotBytes = uint64_t{1} << 30; // more memory takes consecutive slots

    int32_t share; // the owner's descriptor of the PinTable; -1 means that the memory is not pinned
    uint32_t tag;  // of that table, in case the number of the process or the descriptor is used again
    uint32_t slot;

    bool is_pinned() const { return share >= 0; }
    static uint32_t slots(uint64_t size) { return static_cast<uint32_t>((size + kSlotBytes - 1) / kSlotBytes); }
};

inline constexpr Pin kUnpinned{-1, 0, 0};

} // namespace softgaudi
