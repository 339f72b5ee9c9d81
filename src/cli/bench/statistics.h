// SPDX-License-Identifier: BSD-3-Clause
// Figures of a row, from its samples.
#pragma once

#include <cstdint>
#include <vector>

namespace gaudi::cli::bench {

/// Percentiles of samples, in the unit of the samples. P50 is the median.
struct Statistics {
    std::uint64_t samples = 0;
    double p0 = 0, p25 = 0, p50 = 0, p75 = 0, p99 = 0;

    /// How far the middle half of the samples reaches from the median, as a fraction of the median. Infinite where there
    /// are too few samples to tell.
    double noise() const;
};

/// Needs at least one sample. A percentile between two samples is interpolated.
Statistics summarize(std::vector<double> samples);

} // namespace gaudi::cli::bench
