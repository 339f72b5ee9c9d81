// SPDX-License-Identifier: BSD-3-Clause
// The results of a run as data: docs/schema/bench-1.json describes them as JSON.
#pragma once

#include "statistics.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli::bench {

/// One test on one route with one size.
struct Row {
    std::string test;
    std::string route; // for readers: "host to card 0"
    std::vector<std::uint32_t> cards;
    std::string nic; // empty: none takes part
    std::uint64_t size = 0;
    std::uint64_t window = 0;               // transfers that are under way at once for the bandwidth, on each path
    std::uint64_t burst_bytes = 0;          // of all of them
    bool data_correct = false;              // the figures of wrong data are left out
    std::optional<Statistics> latency_us{}; // of one transfer at a time
    std::optional<Statistics> burst_us{};   // until all transfers of a burst have ended

    double bandwidth_gb_per_s() const {
        return burst_us && burst_us->p50 > 0 ? static_cast<double>(burst_bytes) / burst_us->p50 / 1000 : 0;
    }
};

struct CardResult {
    std::uint32_t module_id = 0;
    std::string bus_id, model, driver, firmware;
};

struct Results {
    std::string version, time;  // of ucx_gaudi; in UTC
    bool software = false;      // softgaudi's cards
    bool virtual_clock = false; // of softgaudi, in the place of the host's
    bool interrupted = false;
    std::string host, kernel, processor;
    std::string library, library_version; // libhl-thunk
    std::vector<CardResult> cards;
    std::vector<std::uint64_t> sizes;
    std::uint64_t samples = 0;
    bool quick = false;
    std::vector<Row> rows;
    struct Skipped {
        std::string test, reason;
    };
    std::vector<Skipped> skipped;
};

} // namespace gaudi::cli::bench
