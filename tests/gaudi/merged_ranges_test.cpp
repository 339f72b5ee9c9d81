// SPDX-License-Identifier: BSD-3-Clause
// Small registered ranges that touch are mapped together, and only those; a range that is deregistered leaves its
// neighbours usable and its pages unpinned.
#include "engine_user.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"
#include "gaudi/host/host_memory.h"

#include <atomic>
#include <memory>
#include <random>
#include <thread>

using namespace gaudi;
using namespace gaudi::test;

namespace {

constexpr std::uint64_t kPageSize = 4096, kPiece = HostMemory::kMergedBytes;
using Ranges = std::vector<std::unique_ptr<HostRange>>;

class MergedHostRanges : public GaudiTest {
protected:
    Session &open() { return *value(card().open()); }
    std::unique_ptr<HostRange> make_range(std::uint64_t offset, std::uint64_t length) const {
        return std::make_unique<HostRange>(m_base + offset, length, cards().all().size(),
                                           HostRange::Residency::evictable);
    }
    Ranges make_ranges(std::size_t count, std::uint64_t length, std::uint64_t distance) const {
        Ranges ranges;
        for (std::size_t i = 0; i < count; ++i)
            ranges.push_back(make_range(i * distance, length));
        return ranges;
    }
    static bool map(HostRange &range, Session &session) {
        range.hold();
        const bool mapped = is_ok(range.map(session, range.address()));
        range.release();
        return mapped;
    }
    static std::uint64_t maps() { return Counters(card()).calls("host_memory_map"); }
    static std::uint64_t unmaps() { return Counters(card()).calls("memory_unmap"); }
    static void set_limit(std::uint64_t bytes) {
        change_settings([&](Settings &settings) { settings.max_mapped_host.value = bytes; });
    }
    /// Copies each range down and up again, and compares.
    void check_copies(const Ranges &ranges, std::uint64_t length) {
        const std::uint64_t memory = value(allocate(card(), {.length = length}));
        const Window window(*find_region(memory));
        Mover mover(cards());
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            if (!ranges[i])
                continue;
            const Bytes down = pattern(length, static_cast<unsigned>(i)),
                        up = pattern(length, 70'000 + static_cast<unsigned>(i));
            std::memcpy(reinterpret_cast<void *>(ranges[i]->address()), down.data(), length);
            ASSERT_TRUE(is_ok(run_copy(mover, memory, ranges[i]->address(), length, ranges[i].get())));
            ASSERT_TRUE(window.read(memory, length) == down) << i;
            window.write(memory, up);
            ASSERT_TRUE(is_ok(run_copy(mover, ranges[i]->address(), memory, length, ranges[i].get())));
            ASSERT_EQ(std::memcmp(reinterpret_cast<void *>(ranges[i]->address()), up.data(), length), 0) << i;
        }
        EXPECT_TRUE(free_on(card(), memory));
    }

    const HostBuffer m_host{130 * kMiB};
    const std::uint64_t m_base = (m_host.address() + kPiece - 1) / kPiece * kPiece;
};

TEST_F(MergedHostRanges, contiguous_ranges_of_a_huge_page_are_one_mapping) {
    constexpr std::size_t kCount = 16'384;
    Session &session = open();
    const Ranges ranges = make_ranges(kCount, kPageSize, kPageSize);
    const std::uint64_t before = maps();
    for (int round = 0; round < 2; ++round)
        for (const auto &range : ranges)
            ASSERT_TRUE(map(*range, session));
    EXPECT_EQ(maps() - before, kCount * kPageSize / kPiece);
    EXPECT_EQ(unmaps(), 0u);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), kCount * kPageSize);
}

TEST_F(MergedHostRanges, ranges_on_every_other_page_stay_mapped_and_pin_no_page_between) {
    constexpr std::size_t kCount = 5'000;
    Session &session = open();
    const Ranges ranges = make_ranges(kCount, kPageSize, 2 * kPageSize);
    const std::uint64_t before = maps();
    for (int round = 0; round < 2; ++round)
        for (const auto &range : ranges)
            ASSERT_TRUE(map(*range, session));
    EXPECT_EQ(maps() - before, kCount) << "each once";
    EXPECT_EQ(unmaps(), 0u);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), kCount * kPageSize);
}

TEST_F(MergedHostRanges, copies_reach_the_bytes_of_each_range) {
    for (const std::uint64_t length : {kPageSize, std::uint64_t{1000}, 3 * kPageSize + 8})
        check_copies(make_ranges(100, length, length), length);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
}

TEST_F(MergedHostRanges, range_in_the_middle_maps_its_neighbours_on_both_sides) {
    Session &session = open();
    const Ranges ranges = make_ranges(9, 1000, 1000); // they share pages
    const std::uint64_t before = maps();
    for (const std::size_t i : {4u, 0u, 8u})
        ASSERT_TRUE(map(*ranges[i], session));
    EXPECT_EQ(maps() - before, 1u);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 3 * kPageSize);
}

TEST_F(MergedHostRanges, mapped_neighbour_is_not_mapped_again) {
    Session &session = open();
    Ranges ranges = make_ranges(1, kPageSize, kPageSize);
    ASSERT_TRUE(map(*ranges[0], session));
    ranges.push_back(make_range(kPageSize, kPageSize));
    ASSERT_TRUE(map(*ranges[1], session));
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 2 * kPageSize);
    ranges.pop_back();
    EXPECT_EQ(HostMemory::get().mapped_bytes(), kPageSize);
    const std::uint64_t before = maps();
    ASSERT_TRUE(map(*ranges[0], session));
    EXPECT_EQ(maps(), before);
}

TEST_F(MergedHostRanges, deregistration_unpins_the_range_and_leaves_its_neighbours_usable) {
    Ranges ranges = make_ranges(8, kPageSize, kPageSize);
    check_copies(ranges, kPageSize);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 8 * kPageSize);
    const std::uint64_t before = unmaps();
    ranges[3].reset();
    EXPECT_EQ(unmaps(), before + 1);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 0u);
    check_copies(ranges, kPageSize);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 7 * kPageSize) << "the others, and not the one that is gone";
    const std::uint64_t mapped = maps();
    ranges[5].reset();
    check_copies(ranges, kPageSize);
    EXPECT_EQ(maps(), mapped) << "after the first loss each range has a mapping of its own";
    ranges.clear();
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 0u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
}

TEST_F(MergedHostRanges, mapping_that_a_copy_uses_outlives_the_deregistration_of_a_neighbour) {
    Session &session = open();
    Ranges ranges = make_ranges(4, kPageSize, kPageSize);
    const auto other = make_range(kPiece, kPageSize);
    ASSERT_TRUE(map(*ranges[0], session));
    ranges[1]->hold(); // as a copy does
    const std::uint64_t start = ranges[1]->find(session, ranges[1]->address());
    const std::uint64_t before = unmaps(), mapped = maps();
    ranges[0].reset();
    EXPECT_EQ(unmaps(), before);
    EXPECT_EQ(ranges[1]->find(session, ranges[1]->address()), start);
    EXPECT_TRUE(map(*ranges[2], session));
    EXPECT_EQ(maps(), mapped) << "it is still reached by the old mapping";
    ranges[1]->release();
    EXPECT_TRUE(map(*other, session));
    EXPECT_EQ(unmaps(), before + 1) << "ended with the next use of the account";
    EXPECT_EQ(HostMemory::get().mapped_bytes(), kPageSize);
    EXPECT_TRUE(map(*ranges[2], session));
}

TEST_F(MergedHostRanges, refused_together_is_mapped_alone) {
    Session &session = open();
    ASSERT_EQ(munmap(reinterpret_cast<void *>(m_base + 2 * kPageSize), kPageSize), 0); // registered all the same
    const Ranges ranges = make_ranges(4, kPageSize, kPageSize);
    for (const std::size_t i : {0u, 1u, 3u})
        EXPECT_TRUE(map(*ranges[i], session));
    EXPECT_FALSE(ranges[2]->map(session, ranges[2]->address()));
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 3 * kPageSize);
}

TEST_F(MergedHostRanges, nothing_is_unmapped_for_neighbours) {
    Session &session = open();
    set_limit(4 * kPageSize);
    const auto first = make_range(kPiece, kPageSize);
    ASSERT_TRUE(map(*first, session));
    const Ranges ranges = make_ranges(4, kPageSize, kPageSize);
    const std::uint64_t before = unmaps();
    for (const std::size_t i : {0u, 1u, 2u})
        ASSERT_TRUE(map(*ranges[i], session));
    EXPECT_EQ(unmaps(), before) << "five pages would exceed the limit, so each was mapped alone";
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 4 * kPageSize);
}

TEST_F(MergedHostRanges, eviction_unmaps_neighbours_together_and_later_copies_map_them_again) {
    Session &session = open();
    set_limit(8 * kPageSize);
    const Ranges ranges = make_ranges(4, kPageSize, kPageSize);
    const auto last = make_range(kPiece, 8 * kPageSize);
    ASSERT_TRUE(map(*ranges[0], session));
    const std::uint64_t before = unmaps();
    ranges[3]->hold();
    EXPECT_FALSE(map(*last, session)) << "a copy uses one of the neighbours";
    ranges[3]->release();
    EXPECT_TRUE(map(*last, session));
    EXPECT_EQ(unmaps(), before + 1);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 8 * kPageSize);
    EXPECT_TRUE(map(*ranges[2], session));
    EXPECT_EQ(HostMemory::get().mapped_bytes(), kPageSize);
}

TEST_F(MergedHostRanges, reset_of_the_card_ends_the_mapping_for_all_neighbours) {
    Session &session = open();
    const Ranges ranges = make_ranges(4, kPageSize, kPageSize);
    ASSERT_TRUE(map(*ranges[0], session));
    HostMemory::get().unmap_all(session);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 0u);
    for (const auto &range : ranges)
        EXPECT_EQ(range->find(session, range->address()), 0u);
    EXPECT_TRUE(map(*ranges[3], session));
}

TEST_F(MergedHostRanges, eviction_looks_at_few_of_many_mappings) {
    constexpr std::size_t kCount = 4'000;
    Session &session = open();
    set_limit(kCount * kPageSize);
    const Ranges ranges = make_ranges(2 * kCount, kPageSize, 2 * kPageSize);
    for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_TRUE(map(*ranges[i], session));
    for (std::size_t i = 0; i < kCount;
         ++i) // all of them in use, so that an eviction that looked at all would find none
        ranges[i]->hold();
    const std::uint64_t before = unmaps();
    EXPECT_FALSE(map(*ranges[kCount], session));
    ranges[kCount - 1]->release();
    unsigned tries = 1; // each looks at others
    while (!map(*ranges[kCount], session) && tries < 100)
        ++tries;
    EXPECT_GT(tries, 1u);
    EXPECT_LE(tries, 1 + kCount / 512);
    EXPECT_EQ(unmaps(), before + 1);
    for (std::size_t i = 0; i + 1 < kCount; ++i)
        ranges[i]->release();
}

TEST_F(MergedHostRanges, threads_that_register_copy_and_deregister_neighbours_copy_right) {
    constexpr unsigned kThreads = 4, kTimes = 150;
    set_limit(40 * kPageSize);
    std::vector<std::uint64_t> places;
    for (unsigned i = 0; i < kThreads; ++i)
        places.push_back(value(allocate(card(), {.length = kPageSize})));
    const Window window(*find_region(places[0]));
    std::atomic<unsigned> failed{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            std::minstd_rand random(i + 1);
            Mover mover(cards());
            // Each thread has every fourth page, so all neighbours are those of other threads.
            Ranges ranges(16);
            for (unsigned time = 0; time < kTimes; ++time) {
                const std::size_t which = random() % ranges.size();
                auto &range = ranges[which];
                if (!range || random() % 4 == 0) {
                    range.reset();
                    range = make_range((which * kThreads + i) * kPageSize, kPageSize);
                }
                const Bytes sent = pattern(kPageSize, time * kThreads + i);
                std::memcpy(reinterpret_cast<void *>(range->address()), sent.data(), kPageSize);
                if (!run_copy(mover, places[i], range->address(), kPageSize, range.get()) ||
                    window.read(places[i], kPageSize) != sent)
                    ++failed;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failed, 0u);
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 0u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u) << "no memory was unmapped under a copy";
}

} // namespace
