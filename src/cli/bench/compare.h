// SPDX-License-Identifier: BSD-3-Clause
// Two runs against each other. A difference counts only where it exceeds the noise of both.
#pragma once

#include "cli/sentence.h"
#include "result.h"

#include <string>
#include <vector>

namespace gaudi::cli::bench {

enum class Change { same, faster, slower, too_noisy };
/// For readers and programs: "too noisy to tell".
const char *name_of(Change change);

/// Smaller differences are none.
inline constexpr double kLeastChange = 0.1;

/// Judges times. A change must show in the medians, whose middle halves of samples must not overlap, and in the fastest
/// samples, which a busy machine delays least. `too_noisy` where only some of these show it, or the noise could hide one.
Change judge(const Statistics &before, const Statistics &now);

struct ComparedRow {
    std::string test, route;
    std::uint64_t size = 0;
    const char *figure = "";    // "latency" or "bandwidth"
    double before = 0, now = 0; // microseconds, or GB/s
    double noise = 0;           // of both together, as a fraction
    Change change = Change::same;
};

struct Comparison {
    std::string file, time, host; // of the earlier run
    std::vector<ComparedRow> rows;
    std::uint64_t unmatched = 0; // rows of this run that the earlier one has not, or has with wrong data
};

/// Refuses runs of which one is software and the other is not, or that were timed by different clocks.
OrSentence<Comparison> compare(const Results &before, const Results &now, const std::string &file);

} // namespace gaudi::cli::bench
