// SPDX-License-Identifier: BSD-3-Clause
// What cards have copied for this process, by the counters that libgaudi-core publishes.
#pragma once

#include <cstdint>
#include <optional>

namespace gaudi::cli::explain {

/// Bytes so far, or between two readings.
struct CopiedBytes {
    std::uint64_t up = 0, down = 0; // from cards to host memory, and from there to cards
    std::uint64_t bounced = 0;      // of those, by way of ucx-gaudi's own buffers

    CopiedBytes operator-(const CopiedBytes &before) const {
        return {up - before.up, down - before.down, bounced - before.bounced};
    }
};

/// Nothing if this process has published no counters.
std::optional<CopiedBytes> read_copied_bytes();

} // namespace gaudi::cli::explain
