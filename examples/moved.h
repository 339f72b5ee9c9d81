// SPDX-License-Identifier: BSD-3-Clause
// What software cards and HCAs have counted, over all processes.
#pragma once

#include <cstdint>
#include <vector>

namespace e2e {

/// So far, or between two looks.
struct Moved {
    // bytes by the cards' own engines
    std::uint64_t up = 0, down = 0, within = 0;
    // bytes by the HCAs: out of card memory and into it, out of host memory and into it
    std::uint64_t direct = 0, through = 0;
    std::vector<std::uint64_t> direct_by_device; // of each HCA
    std::uint64_t requests = 0;                  // that HCAs have carried out
    std::uint64_t registrations = 0,
                  host_registrations = 0; // of card memory (UCX's probes not counted), of host memory
    std::uint64_t exports = 0;            // of card memory, by the driver
    std::uint64_t clock_ns = 0;           // the virtual clock, where there is one

    /// Bytes between cards and host memory.
    std::uint64_t staged() const { return up + down; }

    /// As softgaudi_stat and softhca_stat report; what has no program to report it stays 0.
    static Moved so_far(const char *gaudi_stat, const char *hca_stat);
    Moved operator-(const Moved &before) const;
};

} // namespace e2e
