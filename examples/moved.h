// SPDX-License-Identifier: BSD-3-Clause
// Counters of the software cards and HCAs, over all processes.
#pragma once

#include <cstdint>
#include <vector>

namespace e2e {

/// Counters so far, or between two readings.
struct Moved {
    // bytes moved by the cards' engines
    std::uint64_t up = 0, down = 0, within = 0;
    // bytes moved by the HCAs in card memory and in host memory
    std::uint64_t direct = 0, through = 0;
    std::vector<std::uint64_t> direct_by_device; // per HCA
    std::uint64_t requests = 0;                  // requests executed by the HCAs
    std::uint64_t registrations = 0,
                  host_registrations = 0; // of card memory (without UCX's probes), of host memory
    std::uint64_t exports = 0;            // exports of card memory by the driver
    std::uint64_t clock_ns = 0;           // the virtual clock, if there is one

    /// Bytes between cards and host memory.
    std::uint64_t staged() const { return up + down; }

    /// Reads softgaudi_stat and softhca_stat; without a program the counters stay 0.
    static Moved so_far(const char *gaudi_stat, const char *hca_stat);
    Moved operator-(const Moved &before) const;
};

} // namespace e2e
