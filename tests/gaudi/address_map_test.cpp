// SPDX-License-Identifier: BSD-3-Clause
// The mapping of an address: found for exactly the addresses inside, among any number of mappings, from any thread.
#include "gaudi/memory/address_map.h"
#include "gaudi/memory/region.h"
#include "random.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

using gaudi::AddressMap;
using gaudi::Region;
using gaudi::test::Random;

namespace {

constexpr std::uint64_t kBase = 0x1001001800000000, kLength = 0x30000000, kStride = 2 * kLength;

TEST(AddressMap, empty_map_finds_nothing) {
    const AddressMap map;
    for (const std::uint64_t address : {std::uint64_t{0}, kBase, UINT64_MAX})
        EXPECT_EQ(map.find(address), nullptr);
    EXPECT_EQ(map.size(), 0u);
}

TEST(AddressMap, find_is_exact_at_both_ends) {
    AddressMap map;
    std::deque<Region> regions(3);
    for (const std::uint64_t i : {1u, 2u, 0u}) // not in order
        map.insert(kBase + i * kStride, kLength, &regions[i]);
    EXPECT_EQ(map.size(), 3u);
    for (std::uint64_t i = 0; i < 3; ++i) {
        const std::uint64_t begin = kBase + i * kStride;
        EXPECT_EQ(map.find(begin - 1), nullptr);
        EXPECT_EQ(map.find(begin), &regions[i]);
        EXPECT_EQ(map.find(begin + kLength / 2), &regions[i]);
        EXPECT_EQ(map.find(begin + kLength - 1), &regions[i]);
        EXPECT_EQ(map.find(begin + kLength), nullptr);
    }
    EXPECT_EQ(map.find(0), nullptr);
    EXPECT_EQ(map.find(UINT64_MAX), nullptr);
}

TEST(AddressMap, adjacent_ranges_are_distinguished) {
    AddressMap map;
    std::deque<Region> regions(2);
    map.insert(kBase, kLength, &regions[0]);
    map.insert(kBase + kLength, kLength, &regions[1]);
    EXPECT_EQ(map.find(kBase + kLength - 1), &regions[0]);
    EXPECT_EQ(map.find(kBase + kLength), &regions[1]);
}

TEST(AddressMap, removed_range_is_not_found) {
    AddressMap map;
    std::deque<Region> regions(5);
    for (std::uint64_t i = 0; i < 5; ++i)
        map.insert(kBase + i * kStride, kLength, &regions[i]);
    for (const std::uint64_t gone : {2u, 0u, 4u}) {
        map.remove(kBase + gone * kStride, &regions[gone]);
        EXPECT_EQ(map.find(kBase + gone * kStride), nullptr);
    }
    map.remove(kBase + 2 * kStride, &regions[2]); // no longer there
    map.remove(kBase + 1, &regions[1]);           // never there
    EXPECT_EQ(map.size(), 2u);
    EXPECT_EQ(map.find(kBase + 1 * kStride), &regions[1]);
    EXPECT_EQ(map.find(kBase + 3 * kStride), &regions[3]);
    map.insert(kBase + 2 * kStride, kLength, &regions[4]);
    EXPECT_EQ(map.find(kBase + 2 * kStride + 5), &regions[4]);
}

TEST(AddressMap, removed_last_range_can_be_inserted_again) {
    AddressMap map;
    Region region;
    for (unsigned i = 0; i < 2; ++i) {
        map.insert(kBase, kLength, &region);
        EXPECT_EQ(map.find(kBase), &region);
        map.remove(kBase, &region);
        EXPECT_EQ(map.find(kBase), nullptr);
        EXPECT_EQ(map.size(), 0u);
    }
}

TEST(AddressMap, gaps_between_10000_mappings_find_nothing) {
    constexpr std::uint64_t kCount = 10'000;
    AddressMap map;
    std::deque<Region> regions(kCount);
    std::vector<std::uint64_t> order(kCount);
    Random random(1);
    for (std::uint64_t i = 0; i < kCount; ++i)
        order[i] = i;
    for (std::uint64_t i = kCount; i > 1; --i)
        std::swap(order[i - 1], order[random.below(i)]);
    for (const std::uint64_t i : order)
        map.insert(kBase + i * kStride, kLength, &regions[i]);
    EXPECT_EQ(map.size(), kCount);
    for (std::uint64_t i = 0; i < kCount; ++i) {
        const std::uint64_t begin = kBase + i * kStride;
        ASSERT_EQ(map.find(begin + kLength + random.below(kStride - kLength)), nullptr) << i;
        ASSERT_EQ(map.find(begin + random.below(kLength)), &regions[i]) << i;
    }
    for (std::uint64_t i = 0; i < kCount; i += 2)
        map.remove(kBase + i * kStride, &regions[i]);
    for (std::uint64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(map.find(kBase + i * kStride), i % 2 == 0 ? nullptr : &regions[i]) << i;
}

TEST(AddressMap, readers_are_right_while_a_writer_changes_the_map) {
    constexpr unsigned kReaders = 8;
    constexpr std::uint64_t kRanges = 300, kSteps = 20'000; // passes the first table's size: it grows meanwhile
    AddressMap map;
    std::deque<Region> regions(kRanges);
    const auto begin = [](std::uint64_t i) { return kBase + i * kStride; };
    for (std::uint64_t i = 0; i < kRanges; i += 10) // these stay
        map.insert(begin(i), kLength, &regions[i]);
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> wrong{0}, looked{0}; // by how many readers
    std::vector<std::thread> readers;
    for (unsigned reader = 0; reader < kReaders; ++reader)
        readers.emplace_back([&, reader] {
            Random random(reader);
            bool first = true;
            do {
                const std::uint64_t i = random.below(kRanges), inside = random.below(kLength);
                const Region *found = map.find(begin(i) + inside);
                const bool right = i % 10 == 0 ? found == &regions[i] : !found || found == &regions[i];
                if (!right || map.find(begin(i) + kLength + inside))
                    ++wrong;
                looked += std::exchange(first, false) ? 1 : 0;
            } while (!over.load());
        });
    while (looked.load() < kReaders) // all readers have begun
        std::this_thread::yield();
    Random random(99);
    std::vector<bool> there(kRanges);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
        const std::uint64_t i = random.below(kRanges);
        if (i % 10 == 0)
            continue;
        if (there[i])
            map.remove(begin(i), &regions[i]);
        else
            map.insert(begin(i), kLength, &regions[i]);
        there[i] = !there[i];
    }
    over.store(true);
    for (std::thread &reader : readers)
        reader.join();
    EXPECT_EQ(wrong.load(), 0u);
    for (std::uint64_t i = 0; i < kRanges; ++i)
        EXPECT_EQ(map.find(begin(i)), i % 10 == 0 || there[i] ? &regions[i] : nullptr) << i;
}

} // namespace
