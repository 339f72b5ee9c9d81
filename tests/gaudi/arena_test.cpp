// SPDX-License-Identifier: BSD-3-Clause
// Allocation of device memory: where it lies, what it costs and what is refused.
#include "gaudi.h"
#include "random.h"

#include <gmock/gmock.h>

#include <set>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class ArenaTest : public GaudiTest {
protected:
    static std::uint64_t allocate(std::uint64_t length, std::uint64_t alignment = 0, std::size_t index = 0) {
        return value(card(index).arena().allocate({.length = length, .alignment = alignment}));
    }
    static std::string refusal(const Arena::Request &request) {
        const auto address = card().arena().allocate(request);
        return address ? "it was accepted" : address.error().text;
    }
};

TEST_F(ArenaTest, allocations_share_a_block) {
    std::set<std::uint64_t> addresses;
    for (int i = 0; i < 100; ++i)
        addresses.insert(allocate(kMiB));
    EXPECT_EQ(addresses.size(), 100u);
    EXPECT_LE(*addresses.rbegin() - *addresses.begin(), kPage - kMiB);
    const Arena::Usage usage = card().arena().usage();
    EXPECT_EQ(usage.blocks, 1u);
    EXPECT_EQ(usage.block_bytes, kPage);
    EXPECT_EQ(usage.used_bytes, 100 * kMiB);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], kPage);
}

TEST_F(ArenaTest, addresses_of_different_cards_never_collide) {
    std::vector<Range> ranges;
    for (std::size_t index = 0; index < cards().all().size(); ++index)
        for (int block = 0; block < 3; ++block)
            ranges.push_back({allocate(kPage, 0, index), kPage});
    for (std::size_t i = 0; i < ranges.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_TRUE(ranges[i].base + ranges[i].length <= ranges[j].base ||
                        ranges[j].base + ranges[j].length <= ranges[i].base)
                << i << ' ' << j;
    for (std::size_t i = 0; i < ranges.size(); ++i)
        EXPECT_EQ(&cards().find(ranges[i].base + 5)->card(), &card(i / 3)) << "an address tells whose it is";
}

TEST_F(ArenaTest, the_steady_state_makes_no_driver_call) {
    card().arena().free(allocate(kMiB));
    const std::uint64_t before = Counters(card()).calls();
    for (int i = 0; i < 1000; ++i)
        ASSERT_TRUE(card().arena().free(allocate(kMiB)));
    EXPECT_EQ(Counters(card()).calls(), before);
}

TEST_F(ArenaTest, an_allocation_larger_than_a_block_gets_one_of_its_size) {
    const std::uint64_t address = allocate(2 * kPage + 1);
    EXPECT_EQ(card().arena().usage().block_bytes, 3 * kPage);
    EXPECT_EQ(cards().find(address + 2 * kPage)->allocation(address + 2 * kPage).base, address);
    EXPECT_TRUE(card().arena().free(address));
    EXPECT_EQ(card().arena().usage().block_bytes, 0u) << "only blocks of the usual size are kept";
}

TEST_F(ArenaTest, all_of_a_card_can_be_one_allocation) {
    const std::uint64_t address = allocate(127 * kPage);
    EXPECT_THAT(refusal({.length = 1}), HasSubstr("ENOMEM"));
    EXPECT_TRUE(card().arena().free(address));
    EXPECT_NE(allocate(1), 0u);
}

TEST_F(ArenaTest, alignment_is_honoured_up_to_a_gibibyte) {
    for (std::uint64_t alignment = 1; alignment <= kGiB; alignment *= 2) {
        const std::uint64_t address = allocate(kMiB + 1, alignment);
        EXPECT_EQ(address % alignment, 0u) << alignment;
        EXPECT_EQ(cards().find(address)->allocation(address + kMiB).base, address);
    }
}

TEST_F(ArenaTest, lengths_and_alignments_that_make_no_sense_are_refused) {
    for (const Arena::Request &bad : {Arena::Request{.length = 0}, Arena::Request{.length = 1, .alignment = 3},
                                      Arena::Request{.length = 1, .alignment = kPage}})
        EXPECT_THAT(refusal(bad), HasSubstr("EINVAL")) << bad.length << ' ' << bad.alignment;
    EXPECT_FALSE(card().is_open());
}

TEST_F(ArenaTest, more_than_a_card_has_is_refused_however_much_it_is) {
    for (const Arena::Request &bad :
         {Arena::Request{.length = 128 * kPage}, Arena::Request{.length = UINT64_MAX},
          Arena::Request{.length = UINT64_MAX - kPage}, Arena::Request{.length = 1, .alignment = 1ull << 63},
          Arena::Request{.length = UINT64_MAX - 5, .alignment = 4096},
          Arena::Request{.length = UINT64_MAX - 5, .fixed = card().info().dram_base_address}})
        EXPECT_THAT(refusal(bad), HasSubstr("ENOMEM")) << bad.length << ' ' << bad.alignment;
    EXPECT_EQ(card().arena().usage().blocks, 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

TEST_F(ArenaTest, the_cap_limits_what_is_taken_from_the_driver) {
    const Arena::Request one_page{.length = kPage - kMiB, .limit = 2 * kPage};
    const std::uint64_t first = value(card().arena().allocate(one_page));
    value(card().arena().allocate(one_page));
    EXPECT_THAT(refusal(one_page), AllOf(HasSubstr("UCX_GAUDI_COPY_MAX_MEMORY"), HasSubstr("may hold 1536 MiB"),
                                         HasSubstr("holds 1536 MiB")));
    EXPECT_TRUE(card().arena().allocate({.length = kMiB, .limit = 2 * kPage})) << "there is room in what it holds";
    EXPECT_THAT(refusal({.length = kPage, .limit = 0}), HasSubstr("UCX_GAUDI_COPY_MAX_MEMORY"));
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 2 * kPage);
    EXPECT_TRUE(card().arena().free(first));
    EXPECT_TRUE(card().arena().allocate(one_page)) << "freed room counts again";
}

TEST_F(ArenaTest, an_address_inside_a_block_can_be_named) {
    const std::uint64_t first = allocate(kMiB), wanted = first + 64 * kMiB;
    EXPECT_EQ(value(card().arena().allocate({.length = kMiB, .fixed = wanted})), wanted);
    EXPECT_THAT(refusal({.length = 1, .fixed = wanted}), HasSubstr("taken"));
    EXPECT_THAT(refusal({.length = 2 * kMiB, .fixed = wanted - kMiB}), HasSubstr("taken"));
    EXPECT_THAT(refusal({.length = 1, .fixed = wanted + 2 * kMiB + 1}), HasSubstr("taken")) << "between granules";
    EXPECT_EQ(card().arena().usage().blocks, 1u);
    EXPECT_TRUE(card().arena().free(wanted));
    EXPECT_EQ(value(card().arena().allocate({.length = kMiB, .fixed = wanted})), wanted);
}

TEST_F(ArenaTest, an_address_outside_all_blocks_can_be_named) {
    const std::uint64_t first = allocate(kMiB), wanted = first + 10 * kPage + 3 * Heap::kGranule;
    EXPECT_EQ(value(card().arena().allocate({.length = kPage, .fixed = wanted})), wanted);
    EXPECT_EQ(cards().find(wanted)->allocation(wanted).length, kPage);
    EXPECT_EQ(card().arena().usage().blocks, 2u);
    EXPECT_TRUE(card().arena().free(wanted));
    EXPECT_EQ(card().arena().usage().blocks, 1u);
}

TEST_F(ArenaTest, an_address_that_cannot_be_given_is_refused_and_costs_nothing) {
    const std::uint64_t first = allocate(kMiB), held = Counters(card())["dram_used_bytes"];
    EXPECT_THAT(refusal({.length = 1, .fixed = 4096}), HasSubstr("no device memory can be at that address"));
    EXPECT_THAT(refusal({.length = 1, .fixed = first + 9 * kPage + 1}), HasSubstr("no device memory"));
    EXPECT_THAT(refusal({.length = 1, .fixed = 0x7FFF'FFFF'FFFF'F000}), HasSubstr("nothing at that address"));
    EXPECT_THAT(refusal({.length = kPage, .fixed = first + kPage / 2}), HasSubstr("nothing at that address"))
        << "it begins in a block and ends outside";
    const std::uint64_t other = allocate(kMiB, 0, 1);
    EXPECT_THAT(refusal({.length = 1, .fixed = other + kMiB}), HasSubstr("another card's memory"));
    EXPECT_EQ(card().arena().usage().blocks, 1u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], held);
    EXPECT_EQ(cards().find(other)->card().index(), 1u);
}

TEST_F(ArenaTest, only_the_start_of_an_allocation_can_be_freed_and_only_once) {
    const std::uint64_t address = allocate(3 * kMiB);
    EXPECT_FALSE(card().arena().free(address + 1));
    EXPECT_FALSE(card().arena().free(address + kMiB));
    EXPECT_FALSE(card().arena().free(address + 3 * kMiB));
    EXPECT_FALSE(card().arena().free(0));
    EXPECT_FALSE(card().arena().free(UINT64_MAX));
    EXPECT_FALSE(card(1).arena().free(address)) << "another card's";
    EXPECT_TRUE(card().arena().free(address));
    EXPECT_FALSE(card().arena().free(address));
}

TEST_F(ArenaTest, a_hundred_thousand_allocations_live_on_one_card) {
    constexpr std::size_t kCount = 100'000;
    Random random(5);
    std::vector<Range> live;
    for (std::size_t i = 0; i < kCount; ++i) {
        const std::uint64_t length = random.size(3, 16);
        live.push_back({allocate(length), length});
    }
    std::set<std::uint64_t> starts;
    std::uint64_t bytes = 0;
    for (const Range &range : live) {
        starts.insert(range.base);
        bytes += range.length;
        const Range found = cards().find(range.base)->allocation(range.base + range.length - 1);
        ASSERT_EQ(found.base, range.base);
        ASSERT_EQ(found.length, range.length);
    }
    EXPECT_EQ(starts.size(), kCount);
    const Arena::Usage usage = card().arena().usage();
    EXPECT_LE(usage.block_bytes, usage.used_bytes + 2 * kPage) << "no block is taken before one is full";
    EXPECT_GE(usage.used_bytes, bytes);
    for (const Range &range : live)
        ASSERT_TRUE(card().arena().free(range.base));
    EXPECT_EQ(card().arena().usage().used_bytes, 0u);
    EXPECT_EQ(card().arena().usage().blocks, 1u);
}

TEST_F(ArenaTest, the_next_generation_allocates_too) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    const std::uint64_t a = allocate(kMiB), b = allocate(600 * kMiB), other = allocate(kMiB, 0, 1);
    EXPECT_EQ(card().arena().usage().block_bytes, (512 + 1024) * kMiB);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], (512 + 1024) * kMiB);
    EXPECT_EQ(&cards().find(a + 5)->card(), &card(0));
    EXPECT_EQ(&cards().find(other)->card(), &card(1));
    EXPECT_EQ(allocate(kMiB, kGiB) % kGiB, 0u);
    EXPECT_TRUE(value(cards().find(b)->dmabuf()));
    EXPECT_TRUE(card().arena().free(b));
    EXPECT_TRUE(card().arena().free(a));
}

TEST_F(ArenaTest, threads_allocate_and_free_at_once) {
    std::vector<std::thread> threads;
    std::atomic<unsigned> wrong{0};
    Card &shared = card();
    Cards &all = cards();
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Random random(t);
            std::vector<Range> live;
            for (int i = 0; i < 500; ++i) {
                const std::uint64_t length = random.size(12, 27);
                const auto address = shared.arena().allocate({.length = length});
                if (!address) {
                    ++wrong;
                    continue;
                }
                live.push_back({*address, length});
                for (const Range &range : live) {
                    const Region *region = all.find(range.base + random.below(range.length));
                    if (!region || region->allocation(range.base).length != range.length)
                        ++wrong;
                }
                if (live.size() > 8) {
                    std::swap(live[random.below(live.size())], live.back());
                    wrong += shared.arena().free(live.back().base) ? 0 : 1;
                    live.pop_back();
                }
            }
            for (const Range &range : live)
                wrong += shared.arena().free(range.base) ? 0 : 1;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong.load(), 0u);
    EXPECT_EQ(shared.arena().usage().used_bytes, 0u);
}

} // namespace
