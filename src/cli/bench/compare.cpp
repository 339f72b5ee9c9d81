// SPDX-License-Identifier: BSD-3-Clause
#include "compare.h"

#include "os/format.h"

#include <algorithm>
#include <cmath>

namespace gaudi::cli::bench {
namespace {

const Row *find_row(const std::vector<Row> &rows, const Row &wanted) {
    const auto found = std::ranges::find_if(rows, [&](const Row &row) {
        return row.test == wanted.test && row.route == wanted.route && row.size == wanted.size;
    });
    return found == rows.end() ? nullptr : &*found;
}

} // namespace

const char *name_of(Change change) {
    switch (change) {
    case Change::same:
        return "same";
    case Change::faster:
        return "faster";
    case Change::slower:
        return "slower";
    case Change::too_noisy:
        return "too noisy to tell";
    }
    return "";
}

Change judge(const Statistics &before, const Statistics &now) {
    const double noise = before.noise() + now.noise();
    if (!std::isfinite(noise))
        return Change::too_noisy;
    const auto exceeds = [](const Statistics &slow, const Statistics &fast) {
        return slow.p50 > fast.p50 * (1 + kLeastChange) && slow.p25 > fast.p75 &&
               slow.p0 > fast.p0 * (1 + kLeastChange);
    };
    if (exceeds(now, before))
        return Change::slower;
    if (exceeds(before, now))
        return Change::faster;
    const bool differs = std::max(now.p50, before.p50) > std::min(now.p50, before.p50) * (1 + kLeastChange);
    return differs || noise > kLeastChange ? Change::too_noisy : Change::same;
}

OrSentence<Comparison> compare(const Results &before, const Results &now, const std::string &file) {
    const auto kind = [](const Results &results) {
        return !results.software ? "hardware" : results.virtual_clock ? "softgaudi's virtual clock" : "softgaudi";
    };
    if (before.software != now.software || before.virtual_clock != now.virtual_clock)
        return Sentence(os::format("{} was measured on {} and this run on {}: they cannot be compared", file,
                                   kind(before), kind(now)));
    Comparison comparison{file, before.time, before.host, {}, 0};
    for (const Row &row : now.rows) {
        const Row *old = find_row(before.rows, row);
        if (!old || !row.data_correct || !old->data_correct) {
            ++comparison.unmatched;
            continue;
        }
        const auto add = [&](const char *figure, const Statistics &one, const Statistics &other, double was,
                             double is) {
            comparison.rows.push_back(
                {row.test, row.route, row.size, figure, was, is, one.noise() + other.noise(), judge(one, other)});
        };
        // A burst of another length takes another time: what is compared is the time of as many bytes.
        if (old->burst_us && row.burst_us && old->burst_bytes == row.burst_bytes)
            add("bandwidth", *old->burst_us, *row.burst_us, old->bandwidth_gb_per_s(), row.bandwidth_gb_per_s());
        if (old->latency_us && row.latency_us)
            add("latency", *old->latency_us, *row.latency_us, old->latency_us->p50, row.latency_us->p50);
    }
    return comparison;
}

} // namespace gaudi::cli::bench
