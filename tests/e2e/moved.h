// SPDX-License-Identifier: BSD-3-Clause
// What the software cards and HCAs have counted, over all processes.
#pragma once

#include <cstdint>
#include <vector>

namespace e2e {

/// Bytes and registrations so far, or between two looks.
struct Moved {
    std::uint64_t staged = 0;                    // between cards and host memory, by the cards' own engines
    std::uint64_t direct = 0;                    // out of card memory and into it, by the HCAs
    std::uint64_t through = 0;                   // out of host memory and into it, by the HCAs
    std::uint64_t registrations = 0;             // of dma-bufs, UCX's probes not counted
    std::uint64_t exports = 0;                   // of card memory, by the driver
    std::vector<std::uint64_t> direct_by_device; // `direct` of each HCA

    static Moved now();
    Moved operator-(const Moved &before) const;
};

} // namespace e2e
