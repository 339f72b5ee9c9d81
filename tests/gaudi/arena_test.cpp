// SPDX-License-Identifier: BSD-3-Clause
// Allocation of device memory: where it lies, what it costs and what is refused.
#include "gaudi.h"
#include "random.h"

#include "gaudi/card/settings.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class ArenaTest : public GaudiTest {
protected:
    static std::uint64_t take(std::uint64_t length, std::uint64_t alignment = 0, std::size_t index = 0) {
        return value(allocate(card(index), {.length = length, .alignment = alignment}));
    }
    static std::string refusal(const AllocationRequest &request) {
        const auto address = allocate(card(), request);
        return address ? "it was accepted" : address.error().text;
    }
};

TEST_F(ArenaTest, small_allocations_share_a_block) {
    std::set<std::uint64_t> addresses;
    for (int i = 0; i < 100; ++i)
        addresses.insert(take(kMiB));
    EXPECT_EQ(addresses.size(), 100u);
    EXPECT_LE(*addresses.rbegin() - *addresses.begin(), kPage - kMiB);
    const Arena::Usage usage = usage_of(card());
    EXPECT_EQ(usage.blocks, 1u);
    EXPECT_EQ(usage.block_bytes, kPage);
    EXPECT_EQ(usage.used_bytes, 100 * kMiB);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], kPage);
}

TEST_F(ArenaTest, second_card_is_refused_where_hints_are_ignored) {
    std::ofstream(dir() + "/profile.json") << R"({"schema": 1, "behaviour": {"memory": {"hint": "ignored"}},
        "card": {"generation": "gaudi2", "memory_bytes": 102273908736, "memory_base": 1153203082662772736,
                 "page_bytes": 805306368, "edma_mask": 255}})";
    set("SOFTGAUDI_PROFILE", dir() + "/profile.json");
    take(kMiB);
    take(kPage);
    const auto refused = allocate(card(1), {.length = kMiB});
    EXPECT_EQ(code_of(refused), EEXIST);
    EXPECT_THAT(text_of(refused), HasSubstr("the driver maps the memory of several cards at the same address; use one "
                                            "card per process"));
    EXPECT_EQ(Counters(card(1))["dram_used_bytes"], 0u) << "nothing is left behind";
    take(kMiB); // the first card goes on
}

TEST_F(ArenaTest, addresses_of_different_cards_never_overlap) {
    std::vector<Range> ranges;
    for (std::size_t index = 0; index < cards().all().size(); ++index)
        for (int block = 0; block < 3; ++block)
            ranges.push_back({take(kPage, 0, index), kPage});
    for (std::size_t i = 0; i < ranges.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_TRUE(ranges[i].base + ranges[i].length <= ranges[j].base ||
                        ranges[j].base + ranges[j].length <= ranges[i].base)
                << i << ' ' << j;
    for (std::size_t i = 0; i < ranges.size(); ++i)
        EXPECT_EQ(&find_region(ranges[i].base + 5)->card(), &card(i / 3)) << "an address tells its card";
}

TEST_F(ArenaTest, repeated_allocation_makes_no_driver_call) {
    free_on(card(), take(kMiB));
    const std::uint64_t before = Counters(card()).calls();
    for (int i = 0; i < 1000; ++i)
        ASSERT_TRUE(free_on(card(), take(kMiB)));
    EXPECT_EQ(Counters(card()).calls(), before);
}

TEST_F(ArenaTest, allocation_larger_than_a_block_gets_its_own) {
    const std::uint64_t address = take(2 * kPage + 1);
    EXPECT_EQ(usage_of(card()).block_bytes, 3 * kPage);
    EXPECT_EQ(find_region(address + 2 * kPage)->allocation(address + 2 * kPage).base, address);
    EXPECT_TRUE(free_on(card(), address));
    EXPECT_EQ(usage_of(card()).block_bytes, 0u) << "only blocks of the usual size are kept";
}

TEST_F(ArenaTest, one_allocation_can_take_the_whole_card) {
    const std::uint64_t address = take(127 * kPage);
    EXPECT_THAT(refusal({.length = 1}), HasSubstr("ENOMEM"));
    EXPECT_TRUE(free_on(card(), address));
    EXPECT_NE(take(1), 0u);
}

TEST_F(ArenaTest, alignment_up_to_1_gib_is_honoured) {
    for (std::uint64_t alignment = 1; alignment <= kGiB; alignment *= 2) {
        const std::uint64_t address = take(kMiB + 1, alignment);
        EXPECT_EQ(address % alignment, 0u) << alignment;
        EXPECT_EQ(find_region(address)->allocation(address + kMiB).base, address);
    }
}

TEST_F(ArenaTest, invalid_length_or_alignment_is_refused_without_opening) {
    EXPECT_THAT(refusal({.length = 0}), AllOf(HasSubstr("EINVAL"), HasSubstr("cannot allocate 0 bytes")));
    EXPECT_THAT(refusal({.length = 1, .alignment = 3}),
                AllOf(HasSubstr("EINVAL"), HasSubstr("alignment 3 is not a power of two")));
    EXPECT_THAT(refusal({.length = 1, .alignment = kPage}),
                AllOf(HasSubstr("EINVAL"), HasSubstr("alignment 805306368 is not a power of two")));
    EXPECT_FALSE(card().is_open());
}

TEST_F(ArenaTest, request_beyond_the_card_is_refused) {
    for (const AllocationRequest &bad :
         {AllocationRequest{.length = 128 * kPage}, AllocationRequest{.length = UINT64_MAX},
          AllocationRequest{.length = UINT64_MAX - kPage}, AllocationRequest{.length = 1, .alignment = 1ull << 63},
          AllocationRequest{.length = UINT64_MAX - 5, .alignment = 4096},
          AllocationRequest{.length = UINT64_MAX - 5, .fixed = card().info().dram_base_address}})
        EXPECT_THAT(refusal(bad), HasSubstr("ENOMEM")) << bad.length << ' ' << bad.alignment;
    EXPECT_EQ(usage_of(card()).blocks, 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

TEST_F(ArenaTest, limit_bounds_the_blocks_of_the_driver) {
    change_settings([](Settings &settings) { settings.max_memory.name = "MAX_MEMORY"; });
    const AllocationRequest one_page{.length = kPage - kMiB, .limit = 2 * kPage};
    const std::uint64_t first = value(allocate(card(), one_page));
    value(allocate(card(), one_page));
    EXPECT_THAT(refusal(one_page),
                AllOf(HasSubstr("MAX_MEMORY"), HasSubstr("may hold 1536 MiB"), HasSubstr("holds 1536 MiB")));
    EXPECT_TRUE(allocate(card(), {.length = kMiB, .limit = 2 * kPage})) << "there is room in the blocks";
    EXPECT_THAT(refusal({.length = kPage, .limit = 0}), HasSubstr("MAX_MEMORY"));
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 2 * kPage);
    EXPECT_TRUE(free_on(card(), first));
    EXPECT_TRUE(allocate(card(), one_page)) << "freed room counts again";
}

TEST_F(ArenaTest, fixed_address_inside_a_block_is_given) {
    const std::uint64_t first = take(kMiB), wanted = first + 64 * kMiB;
    EXPECT_EQ(value(allocate(card(), {.length = kMiB, .fixed = wanted})), wanted);
    EXPECT_THAT(refusal({.length = 1, .fixed = wanted}), HasSubstr("is allocated already"));
    EXPECT_THAT(refusal({.length = 2 * kMiB, .fixed = wanted - kMiB}), HasSubstr("is allocated already"));
    EXPECT_THAT(refusal({.length = 1, .fixed = wanted + 2 * kMiB + 1}), HasSubstr("is allocated already"))
        << "between granules";
    EXPECT_EQ(usage_of(card()).blocks, 1u);
    EXPECT_TRUE(free_on(card(), wanted));
    EXPECT_EQ(value(allocate(card(), {.length = kMiB, .fixed = wanted})), wanted);
}

TEST_F(ArenaTest, fixed_address_outside_all_blocks_is_given) {
    const std::uint64_t first = take(kMiB), wanted = first + 10 * kPage + 3 * Heap::kGranule;
    EXPECT_EQ(value(allocate(card(), {.length = kPage, .fixed = wanted})), wanted);
    EXPECT_EQ(find_region(wanted)->allocation(wanted).length, kPage);
    EXPECT_EQ(usage_of(card()).blocks, 2u);
    EXPECT_TRUE(free_on(card(), wanted));
    EXPECT_EQ(usage_of(card()).blocks, 1u);
}

TEST_F(ArenaTest, impossible_fixed_address_is_refused_and_costs_nothing) {
    const std::uint64_t first = take(kMiB), held = Counters(card())["dram_used_bytes"];
    EXPECT_THAT(refusal({.length = 1, .fixed = 4096}), HasSubstr("no device memory can be at 0x1000: it starts at"));
    EXPECT_THAT(refusal({.length = 1, .fixed = first + 9 * kPage + 1}), HasSubstr("no device memory can be at"));
    EXPECT_THAT(refusal({.length = 1, .fixed = 0x7FFF'FFFF'FFFF'F000}),
                HasSubstr("the driver maps nothing at 0x7ffffffffffff000"));
    EXPECT_THAT(refusal({.length = kPage, .fixed = first + kPage / 2}), HasSubstr("the driver maps nothing at"))
        << "the range begins in a block and ends outside";
    const std::uint64_t other = take(kMiB, 0, 1);
    EXPECT_THAT(refusal({.length = 1, .fixed = other + kMiB}), HasSubstr("another card's memory"));
    EXPECT_EQ(usage_of(card()).blocks, 1u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], held);
    EXPECT_EQ(find_region(other)->card().number(), 1u);
}

TEST_F(ArenaTest, free_takes_the_start_of_an_allocation_once) {
    const std::uint64_t address = take(3 * kMiB);
    EXPECT_FALSE(free_on(card(), address + 1));
    EXPECT_FALSE(free_on(card(), address + kMiB));
    EXPECT_FALSE(free_on(card(), address + 3 * kMiB));
    EXPECT_FALSE(free_on(card(), 0));
    EXPECT_FALSE(free_on(card(), UINT64_MAX));
    EXPECT_FALSE(free_on(card(1), address)) << "another card's address";
    EXPECT_TRUE(free_on(card(), address));
    EXPECT_FALSE(free_on(card(), address));
}

TEST_F(ArenaTest, hundred_thousand_allocations_fit_on_one_card) {
    constexpr std::size_t kCount = 100'000;
    Random random(5);
    std::vector<Range> live;
    for (std::size_t i = 0; i < kCount; ++i) {
        const std::uint64_t length = random.size(3, 16);
        live.push_back({take(length), length});
    }
    std::set<std::uint64_t> starts;
    std::uint64_t bytes = 0;
    for (const Range &range : live) {
        starts.insert(range.base);
        bytes += range.length;
        const Range found = find_region(range.base)->allocation(range.base + range.length - 1);
        ASSERT_EQ(found.base, range.base);
        ASSERT_EQ(found.length, range.length);
    }
    EXPECT_EQ(starts.size(), kCount);
    const Arena::Usage usage = usage_of(card());
    EXPECT_LE(usage.block_bytes, usage.used_bytes + 2 * kPage) << "no block is taken before the others are full";
    EXPECT_GE(usage.used_bytes, bytes);
    for (const Range &range : live)
        ASSERT_TRUE(free_on(card(), range.base));
    EXPECT_EQ(usage_of(card()).used_bytes, 0u);
    EXPECT_EQ(usage_of(card()).blocks, 1u);
}

TEST_F(ArenaTest, gaudi3_allocates_in_blocks_of_512_mib) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    const std::uint64_t a = take(kMiB), b = take(600 * kMiB), other = take(kMiB, 0, 1);
    EXPECT_EQ(usage_of(card()).block_bytes, (512 + 1024) * kMiB);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], (512 + 1024) * kMiB);
    EXPECT_EQ(&find_region(a + 5)->card(), &card(0));
    EXPECT_EQ(&find_region(other)->card(), &card(1));
    EXPECT_EQ(take(kMiB, kGiB) % kGiB, 0u);
    EXPECT_TRUE(value(find_region(b)->dmabuf()));
    EXPECT_TRUE(free_on(card(), b));
    EXPECT_TRUE(free_on(card(), a));
}

TEST_F(ArenaTest, threads_allocate_and_free_concurrently) {
    std::vector<std::thread> threads;
    std::atomic<unsigned> wrong{0};
    Card &shared = card();
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Random random(t);
            std::vector<Range> live;
            for (int i = 0; i < 500; ++i) {
                const std::uint64_t length = random.size(12, 27);
                const auto address = allocate(shared, {.length = length});
                if (!address) {
                    ++wrong;
                    continue;
                }
                live.push_back({*address, length});
                for (const Range &range : live) {
                    const Region *region = find_region(range.base + random.below(range.length));
                    if (!region || region->allocation(range.base).length != range.length)
                        ++wrong;
                }
                if (live.size() > 8) {
                    std::swap(live[random.below(live.size())], live.back());
                    wrong += free_on(shared, live.back().base) ? 0 : 1;
                    live.pop_back();
                }
            }
            for (const Range &range : live)
                wrong += free_on(shared, range.base) ? 0 : 1;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong.load(), 0u);
    EXPECT_EQ(usage_of(shared).used_bytes, 0u);
}

} // namespace
