// SPDX-License-Identifier: BSD-3-Clause
// The division of one block among allocations: which requests succeed, and which allocation an offset finds.
#include "gaudi/memory/heap.h"

#include <gtest/gtest.h>

#include <vector>

using gaudi::Heap;

namespace {

constexpr std::uint64_t kGranule = Heap::kGranule;
constexpr std::uint64_t kSize = 1024 * kGranule;

TEST(Heap, allocations_do_not_overlap_and_count_in_granules) {
    Heap heap(kSize);
    const auto a = heap.allocate(1, 1), b = heap.allocate(kGranule + 1, 1), c = heap.allocate(kGranule, 1);
    ASSERT_TRUE(a && b && c);
    EXPECT_EQ(*a, 0u);
    EXPECT_EQ(*b, kGranule);
    EXPECT_EQ(*c, 3 * kGranule);
    EXPECT_EQ(heap.used(), 4 * kGranule);
    EXPECT_FALSE(heap.empty());
}

TEST(Heap, one_allocation_can_take_the_whole_block) {
    Heap heap(kSize);
    ASSERT_EQ(heap.allocate(kSize, 1), 0u);
    EXPECT_EQ(heap.used(), kSize);
    EXPECT_FALSE(heap.allocate(1, 1));
    EXPECT_TRUE(heap.free(0));
    EXPECT_TRUE(heap.empty());
}

TEST(Heap, impossible_request_is_refused) {
    Heap heap(kSize);
    EXPECT_FALSE(heap.allocate(0, 1));
    EXPECT_FALSE(heap.allocate(kSize + 1, 1));
    EXPECT_FALSE(heap.allocate(UINT64_MAX, 1));
    EXPECT_FALSE(heap.allocate(1, 2 * kSize));
    EXPECT_FALSE(heap.allocate(kSize, 2 * kGranule)) << "there is no room to align in";
    EXPECT_TRUE(heap.empty());
}

TEST(Heap, freed_range_is_used_again) {
    Heap heap(kSize);
    ASSERT_EQ(heap.allocate(kSize / 2, 1), 0u);
    ASSERT_EQ(heap.allocate(kSize / 2, 1), kSize / 2);
    ASSERT_TRUE(heap.free(0));
    EXPECT_EQ(heap.allocate(kSize / 2, 1), 0u);
}

TEST(Heap, free_neighbours_coalesce_in_any_order) {
    constexpr std::array<std::array<std::uint64_t, 3>, 6> orders = {
        {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
    for (const auto &order : orders) {
        Heap heap(3 * kGranule);
        for (std::uint64_t i = 0; i < 3; ++i)
            ASSERT_EQ(heap.allocate(kGranule, 1), i * kGranule);
        for (const std::uint64_t i : order)
            ASSERT_TRUE(heap.free(i * kGranule));
        EXPECT_EQ(heap.allocate(3 * kGranule, 1), 0u) << order[0] << order[1] << order[2];
    }
}

TEST(Heap, free_takes_the_start_of_an_allocation_once) {
    Heap heap(kSize);
    const auto first = heap.allocate(3 * kGranule, 1);
    ASSERT_EQ(first, 0u);
    EXPECT_FALSE(heap.free(1));
    EXPECT_FALSE(heap.free(kGranule)) << "interior";
    EXPECT_FALSE(heap.free(3 * kGranule)) << "free";
    EXPECT_FALSE(heap.free(kSize)) << "outside";
    EXPECT_FALSE(heap.free(UINT64_MAX - kGranule + 1));
    EXPECT_TRUE(heap.free(0));
    EXPECT_FALSE(heap.free(0));
    EXPECT_EQ(heap.used(), 0u);
}

TEST(Heap, alignment_counts_from_the_origin) {
    for (const std::uint64_t origin : {std::uint64_t{0}, 3 * kGranule, std::uint64_t{0x1001001830000000}}) {
        Heap heap(kSize);
        ASSERT_TRUE(heap.allocate(1, 1, origin));
        for (std::uint64_t alignment = 1; alignment <= 64 * kGranule; alignment *= 2) {
            const auto offset = heap.allocate(100, alignment, origin);
            ASSERT_TRUE(offset) << alignment;
            EXPECT_EQ((origin + *offset) % alignment, 0u) << origin << ' ' << alignment;
        }
    }
}

TEST(Heap, room_skipped_by_alignment_is_usable) {
    Heap heap(16 * kGranule);
    ASSERT_EQ(heap.allocate(kGranule, 8 * kGranule, kGranule), 7 * kGranule);
    EXPECT_EQ(heap.allocate(7 * kGranule, 1), 0u);
    EXPECT_EQ(heap.allocate(8 * kGranule, 1), 8 * kGranule);
}

TEST(Heap, allocate_at_takes_exactly_the_range) {
    Heap heap(kSize);
    EXPECT_TRUE(heap.allocate_at(10 * kGranule, 2 * kGranule));
    EXPECT_FALSE(heap.allocate_at(11 * kGranule, 1)) << "taken";
    EXPECT_FALSE(heap.allocate_at(9 * kGranule, 2 * kGranule)) << "reaches into it";
    EXPECT_TRUE(heap.allocate_at(12 * kGranule, 1)) << "right behind";
    EXPECT_TRUE(heap.allocate_at(0, 10 * kGranule)) << "right in front";
    EXPECT_FALSE(heap.allocate_at(20 * kGranule + 1, 1)) << "between granules";
    EXPECT_FALSE(heap.allocate_at(kSize, 1));
    EXPECT_FALSE(heap.allocate_at(kSize - kGranule, kGranule + 1));
    EXPECT_FALSE(heap.allocate_at(13 * kGranule, 0));
    EXPECT_TRUE(heap.allocate_at(kSize - kGranule, kGranule)) << "the last granule";
    EXPECT_EQ(heap.used(), 14 * kGranule);
    for (const std::uint64_t start : {std::uint64_t{0}, 10 * kGranule, 12 * kGranule, kSize - kGranule})
        EXPECT_TRUE(heap.free(start));
    EXPECT_EQ(heap.allocate(kSize, 1), 0u) << "all free pieces are one again";
}

TEST(Heap, find_is_exact_at_both_ends) {
    Heap heap(kSize);
    ASSERT_TRUE(heap.allocate_at(5 * kGranule, 200 * kGranule - 7));
    for (const std::uint64_t offset : {5 * kGranule, 5 * kGranule + 1, 70 * kGranule, 205 * kGranule - 8}) {
        const auto piece = heap.find(offset);
        ASSERT_TRUE(piece) << offset;
        EXPECT_EQ(piece->offset, 5 * kGranule);
        EXPECT_EQ(piece->length, 200 * kGranule - 7) << "the requested length";
    }
    EXPECT_FALSE(heap.find(5 * kGranule - 1)) << "the gap in front";
    EXPECT_FALSE(heap.find(205 * kGranule - 7)) << "one past the end, in the same granule";
    EXPECT_FALSE(heap.find(205 * kGranule)) << "the gap behind";
    EXPECT_FALSE(heap.find(0));
    EXPECT_FALSE(heap.find(kSize - 1));
    EXPECT_FALSE(heap.find(kSize));
    EXPECT_FALSE(heap.find(UINT64_MAX));
    ASSERT_TRUE(heap.free(5 * kGranule));
    EXPECT_FALSE(heap.find(70 * kGranule)) << "freed";
}

TEST(Heap, adjacent_allocations_are_distinguished) {
    Heap heap(kSize);
    for (std::uint64_t i = 0; i < 100; ++i)
        ASSERT_EQ(heap.allocate(kGranule, 1), i * kGranule);
    for (std::uint64_t i = 0; i < 100; ++i) {
        EXPECT_EQ(heap.find(i * kGranule)->offset, i * kGranule);
        EXPECT_EQ(heap.find(i * kGranule + kGranule - 1)->offset, i * kGranule);
    }
    EXPECT_FALSE(heap.find(100 * kGranule));
}

TEST(Heap, reset_forgets_all_allocations) {
    Heap heap(kSize);
    ASSERT_TRUE(heap.allocate(10 * kGranule, 1));
    ASSERT_TRUE(heap.allocate(20 * kGranule, 1));
    ASSERT_TRUE(heap.free(0));
    heap.reset();
    EXPECT_TRUE(heap.empty());
    EXPECT_FALSE(heap.find(15 * kGranule));
    EXPECT_FALSE(heap.free(10 * kGranule));
    EXPECT_EQ(heap.allocate(kSize, 1), 0u);
}

TEST(Heap, hundred_thousand_allocations_are_found) {
    constexpr std::uint64_t kCount = 100'000;
    Heap heap(768ull << 20);
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < kCount; ++i) {
        const auto offset = heap.allocate(i % kGranule + 1, 1);
        ASSERT_TRUE(offset) << i;
        offsets.push_back(*offset);
    }
    EXPECT_EQ(heap.used(), kCount * kGranule);
    for (std::uint64_t i = 0; i < kCount; ++i) {
        const auto piece = heap.find(offsets[i] + i % kGranule);
        ASSERT_TRUE(piece) << i;
        ASSERT_EQ(piece->offset, offsets[i]);
        ASSERT_EQ(piece->length, i % kGranule + 1);
    }
    for (std::uint64_t i = 0; i < kCount; i += 2) // every second first: nothing coalesces
        ASSERT_TRUE(heap.free(offsets[i]));
    for (std::uint64_t i = 1; i < kCount; i += 2)
        ASSERT_TRUE(heap.free(offsets[i]));
    EXPECT_EQ(heap.allocate(heap.size(), 1), 0u);
}

} // namespace
