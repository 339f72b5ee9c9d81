// SPDX-License-Identifier: BSD-3-Clause
// How much of a card can be allocated in pieces of one size or many, and how large its blocks become.
#include "gaudi.h"
#include "random.h"

#include "gaudi/card/settings.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class ArenaFill : public GaudiTest {
protected:
    static Arena &arena() { return arena_of(card()); }
    static std::uint64_t card_size() { return card().info().dram_size; }
    static std::uint64_t block_size_at(std::uint64_t address) { return find_region(address)->size(); }

    struct Filled {
        std::vector<Range> live;
        std::uint64_t bytes = 0;
    };
    /// Allocates `size` bytes at a time until that is refused.
    static void fill(Filled &filled, std::uint64_t size, std::uint64_t limit = UINT64_MAX) {
        while (const auto address = arena().allocate({.length = size, .limit = limit})) {
            filled.live.push_back({*address, size});
            filled.bytes += size;
        }
    }
    static void free_all(Filled &filled) {
        for (const Range &range : filled.live)
            ASSERT_TRUE(arena().free(range.base));
        filled = {};
    }
    static void free_at_random(Filled &filled, Random &random, std::size_t count) {
        for (; count > 0 && !filled.live.empty(); --count) {
            std::swap(filled.live[random.below(filled.live.size())], filled.live.back());
            ASSERT_TRUE(arena().free(filled.live.back().base));
            filled.bytes -= filled.live.back().length;
            filled.live.pop_back();
        }
    }
    /// Makes the arena give back the empty block that it keeps.
    static void give_back_spare() {
        const AllocationRequest needs_its_room{.length = 2 * kPage, .limit = 2 * kPage};
        ASSERT_TRUE(arena().free(value(arena().allocate(needs_its_room))));
        ASSERT_EQ(arena().usage().blocks, 0u);
    }
    static double share(const Filled &filled, std::uint64_t of = card_size()) {
        return static_cast<double>(filled.bytes) / static_cast<double>(of);
    }
};

class ArenaFillSize : public ArenaFill, public ::testing::WithParamInterface<std::uint64_t> {};

TEST_P(ArenaFillSize, allocations_of_one_size_fill_95_percent_twice) {
    const std::uint64_t size = GetParam() * kMiB;
    Filled filled;
    for (int round = 0; round < 2; ++round) {
        fill(filled, size);
        EXPECT_GE(share(filled), 0.95) << filled.live.size() << " allocations, round " << round;
        free_all(filled);
        EXPECT_LE(arena().usage().block_bytes, kPage) << "empty blocks are given back, but one of a page";
    }
}

INSTANTIATE_TEST_SUITE_P(MiB, ArenaFillSize,
                         ::testing::Values(1, 3, 64, 100, 256, 384, 385, 500, 512, 700, 767, 768, 769, 1000, 1024, 1151,
                                           1536, 1537, 2000, 2048, 2305, 3000, 3073, 3500, 3841, 4000, 4064, 4095,
                                           4096),
                         [](const auto &size) { return std::to_string(size.param); });

TEST_F(ArenaFill, random_sizes_fill_95_percent) {
    const std::uint64_t seed = fresh_seed();
    SCOPED_TRACE("GAUDI_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    for (int round = 0; round < 40; ++round) {
        const std::uint64_t size = 32 * kMiB + random.below(4064 * kMiB / Heap::kGranule + 1) * Heap::kGranule;
        Filled filled;
        fill(filled, size);
        EXPECT_GE(share(filled), 0.95) << size;
        free_all(filled);
    }
}

TEST_F(ArenaFill, random_mix_with_frees_fills_95_percent) {
    const std::uint64_t seed = fresh_seed();
    SCOPED_TRACE("GAUDI_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    Filled filled;
    for (int round = 0; round < 8; ++round) {
        for (int refused = 0; refused < 4;) {
            const std::uint64_t size = random.size(20, 32);
            if (const auto address = arena().allocate({.length = size})) {
                filled.live.push_back({*address, size});
                filled.bytes += size;
            } else {
                ++refused;
            }
        }
        for (std::uint64_t size = 4 * kGiB; size >= kMiB; size /= 2)
            fill(filled, size);
        EXPECT_GE(share(filled), 0.95) << "round " << round;
        free_at_random(filled, random, filled.live.size() / 2);
    }
    free_all(filled);
    EXPECT_EQ(arena().usage().used_bytes, 0u);
    EXPECT_LE(arena().usage().block_bytes, kPage);
}

TEST_F(ArenaFill, first_allocation_takes_only_the_pages_it_needs) {
    for (std::uint64_t size = 100; size <= 4096; size += 111) {
        const std::uint64_t address = value(arena().allocate({.length = size * kMiB}));
        EXPECT_EQ(block_size_at(address), (size * kMiB + kPage - 1) / kPage * kPage) << size << " MiB";
        EXPECT_TRUE(arena().free(address));
        give_back_spare();
    }
}

TEST_F(ArenaFill, block_size_grows_only_with_the_waste) {
    const auto largest_block = [&](std::uint64_t size) {
        Filled filled;
        fill(filled, size);
        std::uint64_t largest = 0;
        for (const Range &range : filled.live)
            largest = std::max(largest, block_size_at(range.base));
        free_all(filled);
        return largest / kPage;
    };
    EXPECT_EQ(largest_block(64 * kMiB), 1u) << "nothing is wasted";
    EXPECT_EQ(largest_block(700 * kMiB), 21u);
    EXPECT_EQ(largest_block(kPage), 1u);
    EXPECT_EQ(largest_block(500 * kMiB), 2u) << "three allocations in two pages";
    EXPECT_EQ(largest_block(kGiB), 4u) << "three allocations in four pages";
    EXPECT_EQ(largest_block(4 * kGiB), 16u) << "three allocations in sixteen pages";
}

TEST_F(ArenaFill, limit_is_filled_and_not_exceeded) {
    change_settings([](Settings &settings) { settings.max_memory.name = "MAX_MEMORY"; });
    constexpr std::uint64_t kLimit = 20 * kPage;
    Filled filled;
    fill(filled, 500 * kMiB, kLimit);
    EXPECT_GE(share(filled, kLimit), 0.95);
    EXPECT_LE(Counters(card())["dram_used_bytes"], kLimit);
    const auto refused = arena().allocate({.length = 500 * kMiB, .limit = kLimit});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, AllOf(HasSubstr("MAX_MEMORY"), HasSubstr("holds 15360 MiB")));
}

TEST_F(ArenaFill, memory_of_a_framework_is_left_out) {
    const auto foreign = value(thunk::allocate(value(card().open())->device(), 60 * kPage));
    Filled filled;
    fill(filled, 1000 * kMiB);
    EXPECT_GE(share(filled, card_size() - 60 * kPage), 0.95);
}

TEST_F(ArenaFill, refused_larger_block_falls_back_to_a_smaller_one) {
    // Nine blocks of a page each come before the first of two pages.
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#10=ENOMEM");
    std::uint64_t last = 0;
    for (int i = 0; i < 10; ++i)
        last = value(arena().allocate({.length = 500 * kMiB}));
    EXPECT_EQ(block_size_at(last), kPage);
    EXPECT_EQ(Counters(card()).calls("device_memory_alloc"), 11u);
}

TEST_F(ArenaFill, gaudi3_fills_95_percent) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    for (const std::uint64_t size : {300u, 500u, 513u, 700u, 1000u, 1025u, 3000u, 4096u}) {
        Filled filled;
        fill(filled, size * kMiB);
        EXPECT_GE(share(filled), 0.95) << size << " MiB";
        free_all(filled);
    }
}

} // namespace
