// SPDX-License-Identifier: BSD-3-Clause
#include "table.h"

#include "os/format.h"
#include "os/printable.h"
#include "sizes.h"
#include "tests.h"

#include <cmath>

namespace gaudi::cli::bench {
namespace {

const char *mark(bool software) { return software ? " (SOFTWARE)" : ""; }

/// Four digits or so, whatever the magnitude.
std::string format_figure(double value) {
    const int decimals = value < 0.1 ? 5 : value < 1 ? 4 : value < 100 ? 2 : 1;
    return os::format("{:.{}f}", value, decimals);
}

std::string format_noise(double noise) {
    return std::isfinite(noise) ? os::format("{:.0f} %", noise * 100) : std::string("unknown");
}

std::string format_row(const Row &row) {
    std::string text = os::format("{:>10}", format_size(row.size));
    if (!row.data_correct)
        return text + "  WRONG DATA: other bytes arrived than were sent\n";
    if (row.burst_us)
        text += os::format("  {:>9} GB/s {:>7}", format_figure(row.bandwidth_gb_per_s()),
                           format_noise(row.burst_us->noise()));
    else
        text += os::format("  {:>9}      {:>7}", "", "");
    if (row.latency_us)
        text += os::format("  {:>9} {:>9} {:>9} us {:>7}", format_figure(row.latency_us->p0),
                           format_figure(row.latency_us->p50), format_figure(row.latency_us->p99),
                           format_noise(row.latency_us->noise()));
    return text + "\n";
}

} // namespace

std::string format_test_list() {
    std::string text;
    for (const Test &test : all_tests())
        text += os::format("{:<39}{}\n", test.name, test.description);
    return text;
}

std::string format_heading(const Results &results) {
    std::string text;
    if (results.virtual_clock)
        text +=
            "SOFTWARE: the cards are those of softgaudi, not hardware: all figures are those of its virtual clock and "
            "pace\n";
    else if (results.software)
        text += "SOFTWARE: the cards are those of softgaudi, not hardware: all figures are this processor's\n";
    text += os::format("libhl-thunk {}, {} samples or more of each figure, data compared\n", results.library_version,
                       results.samples);
    text += "bandwidth: median; P0, P50, P99: latency; noise: how far the middle half of the samples reaches from the "
            "median\n";
    return text;
}

std::string format_rows(const Results &results) {
    std::string text;
    const Row *before = nullptr;
    for (const Row &row : results.rows) {
        if (!before || before->test != row.test || before->route != row.route) {
            text += os::format("\n{}: {}{}\n{:>10}  {:>14} {:>7}", row.test, row.route, mark(results.software), "size",
                               "bandwidth", "noise");
            text += row.latency_us ? os::format("  {:>9} {:>9} {:>9}    {:>7}\n", "P0", "P50", "P99", "noise")
                                   : std::string("\n");
        }
        text += format_row(row);
        before = &row;
    }
    return text;
}

std::string format_skipped(const Results &results) {
    std::string text;
    for (const Results::Skipped &skipped : results.skipped)
        text += os::format("{}skipped: {}: {}\n", text.empty() ? "\n" : "", skipped.test, skipped.reason);
    return text;
}

std::string format_comparison(const Comparison &comparison, bool software) {
    std::string text =
        os::format("\nCompared with {} ({}, {}){}.\nA difference counts from {:.0f} % on, if the fastest "
                   "samples show it as well as the medians, beyond the noise of both.\n",
                   comparison.file, os::printable(comparison.time), os::printable(comparison.host), mark(software),
                   kLeastChange * 100);
    std::size_t counts[4] = {};
    for (const ComparedRow &row : comparison.rows) {
        ++counts[static_cast<int>(row.change)];
        const char *unit = std::string_view(row.figure) == "latency" ? "us" : "GB/s";
        text += os::format("{:<38}{:<24}{:>9}  {:<9} {:>9} -> {:>9} {:<5}{:>7}  {}\n", row.test, row.route,
                           format_size(row.size), row.figure, format_figure(row.before), format_figure(row.now), unit,
                           format_noise(row.noise), name_of(row.change));
    }
    text +=
        os::format("{} same, {} faster, {} slower, {} too noisy to tell", counts[0], counts[1], counts[2], counts[3]);
    if (comparison.unmatched != 0)
        text += os::format("; {} rows have nothing to be compared with", comparison.unmatched);
    return text + "\n";
}

} // namespace gaudi::cli::bench
