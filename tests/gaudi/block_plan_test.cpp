// SPDX-License-Identifier: BSD-3-Clause
// The planned size of driver blocks: the promise for each size of allocation, without a card.
#include "gaudi/memory/block_plan.h"
#include "random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

using gaudi::BlockSpace;
using gaudi::left_over;
using gaudi::plan_block;
using gaudi::test::Random;

namespace {

constexpr std::uint64_t kMiB = 1ull << 20, kGranule = 4096, kPage = 768 * kMiB, kCard = 127 * kPage;

/// Blocks that allocations of one size fill one after another.
struct Filled {
    std::uint64_t bytes = 0, first_block = 0, blocks = 0;
};

Filled fill(std::uint64_t length, BlockSpace space) {
    Filled filled;
    while (const std::uint64_t block = plan_block(length, space)) {
        EXPECT_EQ(block % space.unit, 0u);
        EXPECT_GE(block, length);
        EXPECT_LE(block, space.left);
        if (block == 0 || block > space.left)
            break;
        filled.first_block = filled.blocks++ == 0 ? block : filled.first_block;
        filled.bytes += block / length * length;
        space.left -= block;
        space.held += block;
        space.wasted += left_over(block, length);
    }
    return filled;
}

TEST(BlockPlan, each_size_in_mib_fills_95_percent) {
    unsigned first_was_larger = 0;
    for (std::uint64_t length = kMiB; length <= 4096 * kMiB; length += kMiB) {
        const Filled filled = fill(length, {.unit = kPage, .left = kCard});
        ASSERT_GE(filled.bytes * 100, kCard * 95) << length / kMiB << " MiB";
        first_was_larger += filled.first_block > (length + kPage - 1) / kPage * kPage ? 1 : 0;
    }
    EXPECT_LE(first_was_larger, 19u) << "sizes whose first allocation takes pages for later ones";
}

TEST(BlockPlan, random_sizes_fill_95_percent) {
    const std::uint64_t seed = gaudi::test::fresh_seed();
    SCOPED_TRACE("GAUDI_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    for (int round = 0; round < 2000; ++round) {
        const std::uint64_t length = (256 + random.below((1u << 20) - 255)) * kGranule;
        ASSERT_GE(fill(length, {.unit = kPage, .left = kCard}).bytes * 100, kCard * 95) << length;
    }
}

TEST(BlockPlan, small_allocation_gets_one_unit) {
    for (std::uint64_t length = kGranule; length <= 16 * kMiB; length *= 2)
        EXPECT_EQ(plan_block(length, {.unit = kPage, .held = 10 * kPage, .left = kCard - 10 * kPage}), kPage) << length;
}

TEST(BlockPlan, block_grows_where_the_waste_adds_up) {
    constexpr std::uint64_t kLength = 500 * kMiB, kLeft = 127 - 9;
    EXPECT_EQ(plan_block(kLength, {.unit = kPage, .held = 9 * kPage, .wasted = 0, .left = kLeft * kPage}), kPage);
    EXPECT_EQ(plan_block(kLength, {.unit = kPage, .held = 9 * kPage, .wasted = 9 * 268 * kMiB, .left = kLeft * kPage}),
              2 * kPage);
}

TEST(BlockPlan, last_units_are_planned_where_they_fit) {
    EXPECT_EQ(plan_block(769 * kMiB, {.unit = kPage, .held = 125 * kPage, .left = 2 * kPage}), 2 * kPage);
    EXPECT_EQ(plan_block(769 * kMiB, {.unit = kPage, .held = 126 * kPage, .left = kPage}), 0u);
    EXPECT_EQ(plan_block(kMiB, {.unit = kPage, .held = kCard, .left = kPage - 1}), 0u);
}

TEST(BlockPlan, excess_waste_still_gives_a_block_that_fits) {
    const std::uint64_t seed = gaudi::test::fresh_seed();
    SCOPED_TRACE("GAUDI_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    for (int round = 0; round < 2000; ++round) {
        const std::uint64_t left = random.below(128), length = (1 + random.below(1u << 21)) * kGranule;
        const BlockSpace space{.unit = kPage,
                               .held = (127 - left) * kPage,
                               .wasted = random.below((127 - left) * kPage + 1),
                               .left = left * kPage + random.below(kPage)};
        const std::uint64_t block = plan_block(length, space);
        ASSERT_LE(block, left * kPage);
        ASSERT_EQ(block == 0, length > left * kPage) << length << ' ' << left;
        ASSERT_TRUE(block == 0 || block >= length);
    }
}

} // namespace
