// SPDX-License-Identifier: BSD-3-Clause
// The samples of one row, and whether the data arrived.
#pragma once

#include "clock.h"
#include "result.h"
#include "route.h"

#include <chrono>
#include <vector>

namespace gaudi::cli::bench {

/// How many transfers of a size are under way at once for its bandwidth, on each path.
std::uint64_t choose_window(std::uint64_t size);

class Sampler {
public:
    /// `row` has its test and its size.
    Sampler(Row row, bool with_latency, Clock clock);

    /// Takes samples: single transfers for the latency, then bursts; of each so many at least, and more while kLeastTime has
    /// not passed. With `checked`, the last burst has new data, which are compared in whole. Ends early when the user
    /// interrupts.
    OrSentence<void> take(Route &route, std::uint64_t samples, bool checked);
    /// The row with its figures; without them where data arrived wrong.
    Row finish();
    const Row &row() const { return m_row; }

private:
    /// Many short samples taken within a moment may all show the same state of the machine.
    static constexpr std::chrono::milliseconds kLeastTime{10};

    OrSentence<void> take_one(Route &route, std::vector<double> &into, std::uint64_t count);
    OrSentence<void> take_checked(Route &route);

    Row m_row;
    bool m_with_latency;
    Clock m_clock;
    std::vector<double> m_latencies, m_bursts; // microseconds
};

} // namespace gaudi::cli::bench
