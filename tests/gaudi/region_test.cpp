// SPDX-License-Identifier: BSD-3-Clause
// What is known of an address: the allocation that holds it, and the generation of the mapping it belongs to.
#include "gaudi.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class RegionTest : public GaudiTest {
protected:
    static std::uint64_t take(std::uint64_t length) { return value(allocate(card(), {.length = length})); }
};

TEST_F(RegionTest, interior_address_finds_its_allocation) {
    const std::uint64_t a = take(10'000), b = take(5 * kMiB);
    Region *region = find_region(a);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(find_region(b + 5 * kMiB - 1), region) << "one block";
    for (const std::uint64_t inside : {a, a + 1, a + 4096, a + 9'999}) {
        EXPECT_EQ(region->allocation(inside).base, a);
        EXPECT_EQ(region->allocation(inside).length, 10'000u);
    }
    EXPECT_EQ(region->allocation(b + 3 * kMiB + 7).base, b);
    EXPECT_EQ(&region->card(), &card());
}

TEST_F(RegionTest, unallocated_address_finds_the_whole_mapping) {
    const std::uint64_t a = take(100);
    const Region *region = find_region(a);
    for (const std::uint64_t unused : {a + 100, a + 4096, region->base() + region->size() - 1}) {
        EXPECT_EQ(region->allocation(unused).base, region->base());
        EXPECT_EQ(region->allocation(unused).length, kPage);
    }
}

TEST_F(RegionTest, host_address_finds_no_region) {
    const std::uint64_t a = take(100);
    int on_the_stack = 0;
    const auto on_the_heap = std::make_unique<int>(0);
    static int in_the_image = 0;
    for (const void *pointer : {static_cast<const void *>(&on_the_stack), static_cast<const void *>(on_the_heap.get()),
                                static_cast<const void *>(&in_the_image), static_cast<const void *>(nullptr)})
        EXPECT_EQ(find_region(reinterpret_cast<std::uint64_t>(pointer)), nullptr);
    EXPECT_EQ(find_region(a - 1), nullptr);
    EXPECT_EQ(find_region(a + kPage), nullptr);
}

TEST_F(RegionTest, contains_is_exact_at_both_ends) {
    const std::uint64_t a = take(100);
    const Region *region = find_region(a);
    EXPECT_TRUE(region->contains(a, kPage));
    EXPECT_FALSE(region->contains(a, kPage + 1));
    EXPECT_FALSE(region->contains(a + 1, kPage));
    EXPECT_TRUE(region->contains(a + kPage - 1, 1));
    EXPECT_FALSE(region->contains(a + kPage, 0));
    EXPECT_FALSE(region->contains(a - 1, 1));
    EXPECT_FALSE(region->contains(a + 1, UINT64_MAX));
}

TEST_F(RegionTest, generation_changes_with_each_mapping) {
    const std::uint64_t first = take(2 * kPage);
    Region *region = find_region(first);
    const std::uint64_t generation = region->generation();
    const std::uint64_t beside = take(100);
    EXPECT_EQ(region->generation(), generation) << "other blocks do not change it";
    free_on(card(), first);
    EXPECT_NE(region->generation(), generation) << "the mapping has ended";
    const std::uint64_t between = region->generation();
    const std::uint64_t second = take(2 * kPage);
    EXPECT_EQ(find_region(second), region) << "the object is used again";
    EXPECT_NE(region->generation(), generation);
    EXPECT_NE(region->generation(), between);
    EXPECT_EQ(region->allocation(second + 5).base, second);
    EXPECT_EQ(region->allocation(second + 5).length, 2 * kPage) << "nothing of the last generation is left";
    free_on(card(), beside);
}

TEST_F(RegionTest, readers_find_allocations_while_blocks_change) {
    const std::uint64_t stays = take(3 * kMiB);
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> wrong{0}, looked{0}; // by how many readers
    std::vector<std::thread> readers;
    for (int reader = 0; reader < 4; ++reader)
        readers.emplace_back([&] {
            bool first = true;
            do {
                const Region *region = find_region(stays + 2 * kMiB);
                const Range range = region ? region->allocation(stays + 2 * kMiB) : Range{};
                if (range.base != stays || range.length != 3 * kMiB)
                    ++wrong;
                if (find_region(reinterpret_cast<std::uint64_t>(&range)))
                    ++wrong;
                looked += std::exchange(first, false) ? 1 : 0;
            } while (!over.load());
        });
    while (looked.load() < 4) // all readers have begun
        std::this_thread::yield();
    for (int i = 0; i < 200; ++i)
        EXPECT_TRUE(free_on(card(), take(2 * kPage)));
    over.store(true);
    for (std::thread &reader : readers)
        reader.join();
    EXPECT_EQ(wrong.load(), 0u);
}

} // namespace
