// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gaudi::cli::bench {
namespace {

double find_percentile(const std::vector<double> &sorted, double fraction) {
    const double position = fraction * static_cast<double>(sorted.size() - 1);
    const double below = std::floor(position);
    const auto index = static_cast<std::size_t>(below);
    const double low = sorted[index], high = sorted[std::min(index + 1, sorted.size() - 1)];
    return low + (high - low) * (position - below);
}

} // namespace

double Statistics::noise() const {
    constexpr std::uint64_t kLeast = 5;
    if (samples < kLeast || !(p50 > 0))
        return std::numeric_limits<double>::infinity();
    return std::max(p75 - p50, p50 - p25) / p50;
}

Statistics summarize(std::vector<double> samples) {
    std::ranges::sort(samples);
    return {samples.size(),
            samples.front(),
            find_percentile(samples, 0.25),
            find_percentile(samples, 0.5),
            find_percentile(samples, 0.75),
            find_percentile(samples, 0.99)};
}

} // namespace gaudi::cli::bench
