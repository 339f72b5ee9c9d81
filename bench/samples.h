// SPDX-License-Identifier: BSD-3-Clause
// Wall-clock comparisons that survive a busy machine: each round measures the base, what is compared with it, and the
// base again, so that whatever slows the machine slows all three, and base against base shows what noise is left.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace bench {

using Json = nlohmann::ordered_json;

/// Nanoseconds that something takes.
inline double nanoseconds(const std::function<void()> &work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

/// The same of the fastest of several runs: where each is short, most others of the machine stay out of one of them.
inline double fastest(unsigned runs, const std::function<void()> &work) {
    double best = nanoseconds(work);
    for (unsigned i = 1; i < runs; ++i)
        best = std::min(best, nanoseconds(work));
    return best;
}

struct Samples {
    std::vector<double> base, other, again;

    Json json() const { return {{"base_ns", base}, {"other_ns", other}, {"base_again_ns", again}}; }
};

/// `base` and `other` do the work once and return its nanoseconds. The order changes from round to round.
inline Samples interleave(unsigned rounds, const std::function<double()> &base, const std::function<double()> &other) {
    Samples samples;
    base(); // both run once before they are measured
    other();
    for (unsigned round = 0; round < rounds; ++round)
        for (unsigned i = 0; i < 3; ++i)
            switch ((round + i) % 3) {
            case 0:
                samples.base.push_back(base());
                break;
            case 1:
                samples.other.push_back(other());
                break;
            default:
                samples.again.push_back(base());
            }
    return samples;
}

/// Reports the step under way: one line on stderr that ./ucx-gaudi bench shows.
inline void progress(const std::string &what) {
    std::fprintf(stderr, "progress: %s\n", what.c_str());
    std::fflush(stderr);
}

} // namespace bench
