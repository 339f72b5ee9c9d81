// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi bench --compare: only differences beyond the noise count.
#include "cli/bench/compare.h"
#include "cli/bench/table.h"

#include <gmock/gmock.h>

#include <cmath>

namespace gaudi::cli::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Samples around a median, the fastest a little below; `noise` as a fraction.
Statistics around(double median, double noise, std::uint64_t samples = 100) {
    return {samples, median * (1 - noise * 1.2), median * (1 - noise),
            median,  median * (1 + noise),       median * (1 + 4 * noise)};
}

TEST(Judge, identical_runs_are_the_same) {
    for (const double noise : {0.0, 0.01, 0.05})
        EXPECT_EQ(judge(around(20, noise), around(20, noise)), Change::same) << noise;
}

TEST(Judge, factor_of_two_is_slower_and_back_is_faster) {
    for (const double noise : {0.0, 0.01, 0.05, 0.2}) {
        EXPECT_EQ(judge(around(20, noise), around(40, noise)), Change::slower) << noise;
        EXPECT_EQ(judge(around(40, noise), around(20, noise)), Change::faster) << noise;
    }
}

TEST(Judge, noise_that_could_hide_a_change_decides_nothing) {
    EXPECT_EQ(judge(around(20, 0.2), around(20, 0.2)), Change::too_noisy);
    EXPECT_EQ(judge(around(20, 0.01), around(20, 0.3)), Change::too_noisy);
    EXPECT_EQ(judge(around(20, 0.5), around(40, 0.5)), Change::too_noisy);
    EXPECT_EQ(judge(around(40, 0.5), around(20, 0.5)), Change::too_noisy);
}

TEST(Judge, small_difference_is_none) {
    EXPECT_EQ(judge(around(20, 0.01), around(21, 0.01)), Change::same);
    EXPECT_EQ(judge(around(21, 0.01), around(20, 0.01)), Change::same);
    EXPECT_EQ(judge(around(20, 0.01), around(23, 0.01)), Change::slower);
}

TEST(Judge, slower_median_with_equally_fast_samples_is_noise) {
    Statistics busy = around(40, 0.02);
    busy.p0 = 20; // what the earlier run took
    EXPECT_EQ(judge(around(20, 0.01), busy), Change::too_noisy);
    EXPECT_EQ(judge(busy, around(20, 0.01)), Change::too_noisy);
}

TEST(Judge, few_samples_decide_nothing) {
    EXPECT_EQ(judge(around(20, 0, 4), around(40, 0, 100)), Change::too_noisy);
    EXPECT_EQ(judge(around(20, 0, 100), around(20, 0, 1)), Change::too_noisy);
}

Row row(const char *test, std::uint64_t size, double latency, double burst) {
    Row made;
    made.test = test;
    made.route = "host to card 0";
    made.size = size;
    made.window = 64;
    made.burst_bytes = size * 64;
    made.data_correct = true;
    made.latency_us = around(latency, 0.01);
    made.burst_us = around(burst, 0.01);
    return made;
}

Results run(std::vector<Row> rows) {
    Results results;
    results.software = true;
    results.host = "alpha";
    results.time = "2026-01-01T00:00:00Z";
    results.rows = std::move(rows);
    return results;
}

TEST(Compare, each_figure_of_a_row_is_judged) {
    const auto found = compare(run({row("down", 8, 10, 100)}), run({row("down", 8, 20, 100)}), "old.json");
    ASSERT_TRUE(found);
    ASSERT_EQ(found->rows.size(), 2u);
    EXPECT_STREQ(found->rows[0].figure, "bandwidth");
    EXPECT_EQ(found->rows[0].change, Change::same);
    EXPECT_STREQ(found->rows[1].figure, "latency");
    EXPECT_EQ(found->rows[1].change, Change::slower);
    EXPECT_DOUBLE_EQ(found->rows[1].before, 10);
    EXPECT_DOUBLE_EQ(found->rows[1].now, 20);
    EXPECT_NEAR(found->rows[1].noise, 0.02, 1e-9);
    EXPECT_EQ(found->unmatched, 0u);
}

TEST(Compare, longer_burst_is_lower_bandwidth) {
    const auto found = compare(run({row("down", 8, 10, 100)}), run({row("down", 8, 10, 200)}), "old.json");
    EXPECT_EQ(found->rows[0].change, Change::slower);
    EXPECT_NEAR(found->rows[0].before / found->rows[0].now, 2, 1e-9);
}

TEST(Compare, rows_without_a_partner_are_counted) {
    Row wrong = row("up", 8, 1, 1);
    wrong.data_correct = false;
    const auto found = compare(run({row("down", 8, 10, 100), row("up", 8, 10, 100)}),
                               run({row("down", 64, 10, 100), row("local", 8, 10, 100), wrong}), "old.json");
    EXPECT_TRUE(found->rows.empty());
    EXPECT_EQ(found->unmatched, 3u);
}

TEST(Compare, software_is_not_compared_with_hardware) {
    Results hardware = run({row("down", 8, 10, 100)});
    hardware.software = false;
    EXPECT_EQ(compare(hardware, run({}), "old.json").error(),
              "old.json was measured on hardware and this run on softgaudi: they cannot be compared");
    EXPECT_FALSE(compare(run({}), hardware, "old.json"));
    Results paced = run({});
    paced.virtual_clock = true;
    EXPECT_EQ(compare(paced, run({}), "old.json").error(),
              "old.json was measured on softgaudi's virtual clock and this run on softgaudi: they cannot be compared");
}

TEST(Compare, escapes_of_the_file_do_not_reach_the_terminal) {
    Results forged = run({row("down", 8, 10, 100)});
    forged.time = "\033[2Jnow";
    forged.host = "al\npha";
    const auto found = compare(forged, run({row("down", 8, 10, 100)}), "old.json");
    EXPECT_THAT(format_comparison(*found, false), HasSubstr("Compared with old.json (?[2Jnow, al?pha).\n"));
}

TEST(Compare, text_names_verdicts_and_counts_them) {
    Row noisy = row("down", 64, 10, 100);
    noisy.latency_us = around(10, 0.4);
    const auto found = compare(run({row("down", 8, 10, 100), noisy}), run({row("down", 8, 30, 50), noisy}), "old.json");
    const std::string text = format_comparison(*found, true);
    EXPECT_THAT(text, HasSubstr("Compared with old.json (2026-01-01T00:00:00Z, alpha) (SOFTWARE).\n"));
    EXPECT_THAT(text, HasSubstr("10.00 ->     30.00 us       2 %  slower\n"));
    EXPECT_THAT(text, HasSubstr("80 %  too noisy to tell\n"));
    EXPECT_THAT(text, HasSubstr("\n1 same, 1 faster, 1 slower, 1 too noisy to tell\n"));
    EXPECT_THAT(format_comparison(*found, false), Not(HasSubstr("SOFTWARE")));
}

} // namespace
} // namespace gaudi::cli::bench
