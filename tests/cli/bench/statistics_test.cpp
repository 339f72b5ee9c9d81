// SPDX-License-Identifier: BSD-3-Clause
// Figures of samples, sizes and the progress line of ucx_gaudi bench.
#include "cli/bench/measure.h"
#include "cli/bench/progress_bar.h"
#include "cli/bench/sizes.h"
#include "cli/bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace gaudi::cli::bench {
namespace {

TEST(Statistics, known_samples_have_known_percentiles) {
    std::vector<double> samples(101);
    std::iota(samples.rbegin(), samples.rend(), 100.0); // 100 to 200, in descending order
    const Statistics found = summarize(samples);
    EXPECT_EQ(found.samples, 101u);
    EXPECT_DOUBLE_EQ(found.p0, 100);
    EXPECT_DOUBLE_EQ(found.p25, 125);
    EXPECT_DOUBLE_EQ(found.p50, 150);
    EXPECT_DOUBLE_EQ(found.p75, 175);
    EXPECT_DOUBLE_EQ(found.p99, 199);
}

TEST(Statistics, percentile_between_two_samples_is_interpolated) {
    const Statistics found = summarize({4, 1, 3, 2});
    EXPECT_DOUBLE_EQ(found.p50, 2.5);
    EXPECT_DOUBLE_EQ(found.p25, 1.75);
    EXPECT_DOUBLE_EQ(found.p99, 3.97);
}

TEST(Statistics, one_sample_is_every_percentile) {
    const Statistics found = summarize({7});
    for (const double figure : {found.p0, found.p25, found.p50, found.p75, found.p99})
        EXPECT_DOUBLE_EQ(figure, 7);
}

TEST(Noise, is_the_wider_side_of_the_middle_half) {
    EXPECT_DOUBLE_EQ((Statistics{100, 90, 95, 100, 130, 500}.noise()), 0.3);
    EXPECT_DOUBLE_EQ((Statistics{100, 10, 60, 100, 101, 102}.noise()), 0.4);
    EXPECT_DOUBLE_EQ(summarize(std::vector<double>(10, 3.0)).noise(), 0);
}

TEST(Noise, few_samples_are_unknown_noise) {
    EXPECT_TRUE(std::isinf(summarize({1, 1, 1, 1}).noise()));
    EXPECT_FALSE(std::isinf(summarize({1, 1, 1, 1, 1}).noise()));
}

TEST(Sizes, list_is_sorted_and_each_size_taken_once) {
    EXPECT_EQ(*parse_sizes("1M,8,4K,8,4KiB,1G,64B"), (std::vector<std::uint64_t>{8, 64, 4096, 1 << 20, 1 << 30}));
}

TEST(Sizes, words_that_are_no_size_are_refused_by_name) {
    for (const char *text :
         {"", "0", "-1", "4X", "4KB", "K", "8,,4", "8,", "2G", "1025M", "99999999999999999999", "1.5K", "0x10", " 8"})
        EXPECT_FALSE(parse_sizes(text)) << text;
    EXPECT_EQ(parse_sizes("8,4X").error(), "'4X' is not a size: 1 to 1G bytes, with K, M or G as in 64K");
}

TEST(Sizes, text_uses_the_largest_whole_unit) {
    EXPECT_EQ(format_size(1), "1 B");
    EXPECT_EQ(format_size(1000), "1000 B");
    EXPECT_EQ(format_size(1536), "1536 B");
    EXPECT_EQ(format_size(4096), "4 KiB");
    EXPECT_EQ(format_size(64 << 20), "64 MiB");
    EXPECT_EQ(format_size(1 << 30), "1 GiB");
}

TEST(Window, large_transfers_take_less_memory_at_once) {
    EXPECT_EQ(choose_window(1), 64u);
    EXPECT_EQ(choose_window(64 << 10), 64u);
    EXPECT_EQ(choose_window(1 << 20), 16u);
    EXPECT_EQ(choose_window(kMostBytes), 1u);
}

TEST(Progress, line_grows_with_the_steps) {
    EXPECT_EQ(format_progress(0, 10, "a"), "[..............................]   0/10  a");
    EXPECT_EQ(format_progress(5, 10, "b"), "[###############...............]   5/10  b");
    EXPECT_EQ(format_progress(10, 10, "c"), "[##############################]  10/10  c");
}

} // namespace
} // namespace gaudi::cli::bench
