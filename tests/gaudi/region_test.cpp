// SPDX-License-Identifier: BSD-3-Clause
// What is known of an address: the allocation that holds it, and which life of a mapping it belongs to.
#include "gaudi.h"

#include <atomic>
#include <thread>
#include <utility>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class RegionTest : public GaudiTest {
protected:
    static std::uint64_t allocate(std::uint64_t length) { return value(card().arena().allocate({.length = length})); }
};

TEST_F(RegionTest, interior_addresses_find_their_allocation) {
    const std::uint64_t a = allocate(10'000), b = allocate(5 * kMiB);
    Region *region = cards().find(a);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(cards().find(b + 5 * kMiB - 1), region) << "one block";
    for (const std::uint64_t inside : {a, a + 1, a + 4096, a + 9'999}) {
        EXPECT_EQ(region->allocation(inside).base, a);
        EXPECT_EQ(region->allocation(inside).length, 10'000u);
    }
    EXPECT_EQ(region->allocation(b + 3 * kMiB + 7).base, b);
    EXPECT_EQ(&region->card(), &card());
}

TEST_F(RegionTest, where_nothing_is_allocated_it_is_the_whole_mapping) {
    const std::uint64_t a = allocate(100);
    const Region *region = cards().find(a);
    for (const std::uint64_t unused : {a + 100, a + 4096, region->base() + region->size() - 1}) {
        EXPECT_EQ(region->allocation(unused).base, region->base());
        EXPECT_EQ(region->allocation(unused).length, kPage);
    }
}

TEST_F(RegionTest, host_memory_is_never_device_memory) {
    const std::uint64_t a = allocate(100);
    int on_the_stack = 0;
    const auto on_the_heap = std::make_unique<int>(0);
    static int in_the_image = 0;
    for (const void *pointer : {static_cast<const void *>(&on_the_stack), static_cast<const void *>(on_the_heap.get()),
                                static_cast<const void *>(&in_the_image), static_cast<const void *>(nullptr)})
        EXPECT_EQ(cards().find(reinterpret_cast<std::uint64_t>(pointer)), nullptr);
    EXPECT_EQ(cards().find(a - 1), nullptr);
    EXPECT_EQ(cards().find(a + kPage), nullptr);
}

TEST_F(RegionTest, contains_knows_the_ends) {
    const std::uint64_t a = allocate(100);
    const Region *region = cards().find(a);
    EXPECT_TRUE(region->contains(a, kPage));
    EXPECT_FALSE(region->contains(a, kPage + 1));
    EXPECT_FALSE(region->contains(a + 1, kPage));
    EXPECT_TRUE(region->contains(a + kPage - 1, 1));
    EXPECT_FALSE(region->contains(a + kPage, 0));
    EXPECT_FALSE(region->contains(a - 1, 1));
    EXPECT_FALSE(region->contains(a + 1, UINT64_MAX));
}

TEST_F(RegionTest, the_generation_tells_one_life_from_the_next) {
    const std::uint64_t first = allocate(2 * kPage);
    Region *region = cards().find(first);
    const std::uint64_t generation = region->generation();
    const std::uint64_t beside = allocate(100);
    EXPECT_EQ(region->generation(), generation) << "other blocks do not change it";
    card().arena().free(first);
    EXPECT_NE(region->generation(), generation) << "over";
    const std::uint64_t between = region->generation();
    const std::uint64_t second = allocate(2 * kPage);
    EXPECT_EQ(cards().find(second), region) << "the object is used again";
    EXPECT_NE(region->generation(), generation);
    EXPECT_NE(region->generation(), between);
    EXPECT_EQ(region->allocation(second + 5).base, second);
    EXPECT_EQ(region->allocation(second + 5).length, 2 * kPage) << "nothing of its last life is left";
    card().arena().free(beside);
}

TEST_F(RegionTest, threads_detect_while_blocks_come_and_go) {
    const std::uint64_t stays = allocate(3 * kMiB);
    Cards &all = cards();
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> wrong{0}, looked{0}; // by how many readers
    std::vector<std::thread> readers;
    for (int reader = 0; reader < 4; ++reader)
        readers.emplace_back([&] {
            bool first = true;
            do {
                const Region *region = all.find(stays + 2 * kMiB);
                const Range range = region ? region->allocation(stays + 2 * kMiB) : Range{};
                if (range.base != stays || range.length != 3 * kMiB)
                    ++wrong;
                if (all.find(reinterpret_cast<std::uint64_t>(&range)))
                    ++wrong;
                looked += std::exchange(first, false) ? 1 : 0;
            } while (!over.load());
        });
    while (looked.load() < 4) // all are at it
        std::this_thread::yield();
    for (int i = 0; i < 200; ++i)
        EXPECT_TRUE(card().arena().free(allocate(2 * kPage)));
    over.store(true);
    for (std::thread &reader : readers)
        reader.join();
    EXPECT_EQ(wrong.load(), 0u);
}

} // namespace
