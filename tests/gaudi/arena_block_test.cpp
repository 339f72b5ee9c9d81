// SPDX-License-Identifier: BSD-3-Clause
// Driver blocks of an arena: when they are taken and given back, which listeners are notified, and what a refusal
// leaves.
#include "gaudi.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

class ArenaBlock : public GaudiTest {
protected:
    static Arena &arena() { return arena_of(card()); }
    static std::uint64_t take_block() { return value(arena().allocate({.length = kPage})); }
};

/// Records its notifications, and looks the region up during each.
class Recorder : public MappingListener {
public:
    void mapped(const Region &region) override {
        events.push_back("mapped");
        bases.push_back(region.base());
        EXPECT_EQ(find_region(region.base()), &region) << "the region is found when listeners are notified";
    }
    void unmapping(const Region &region) override {
        events.push_back("unmapping");
        bases.push_back(region.base());
        EXPECT_EQ(find_region(region.base()), &region) << "the region is still mapped";
        if (while_unmapping)
            while_unmapping();
    }

    std::vector<std::string> events;
    std::vector<std::uint64_t> bases;
    std::function<void()> while_unmapping;
};

TEST_F(ArenaBlock, empty_blocks_are_given_back_but_one) {
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 5; ++i)
        blocks.push_back(take_block());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 5 * kPage);
    for (const std::uint64_t address : blocks)
        EXPECT_TRUE(arena().free(address));
    EXPECT_EQ(arena().usage().blocks, 1u);
    EXPECT_EQ(arena().usage().used_bytes, 0u);
    const Counters counters(card());
    EXPECT_EQ(counters["dram_used_bytes"], kPage);
    EXPECT_EQ(counters.calls("memory_unmap"), 4u);
    EXPECT_EQ(counters.calls("device_memory_free"), 4u);
}

TEST_F(ArenaBlock, kept_block_is_given_back_where_memory_is_short) {
    arena().free(take_block());
    ASSERT_EQ(arena().usage().block_bytes, kPage);
    EXPECT_TRUE(arena().allocate({.length = 2 * kPage, .limit = 2 * kPage})) << "it counts towards the limit";
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 2 * kPage);

    free_on(card(1), value(allocate(card(1), {.length = kPage})));
    EXPECT_TRUE(free_on(card(1), value(allocate(card(1), {.length = 127 * kPage}))))
        << "it counts towards the card's memory";
}

TEST_F(ArenaBlock, given_back_block_is_no_longer_gaudi_memory) {
    const std::uint64_t first = take_block(), second = take_block();
    arena().free(second);
    EXPECT_NE(find_region(second), nullptr) << "one empty block is kept";
    arena().free(first);
    EXPECT_EQ(find_region(first), nullptr);
    EXPECT_EQ(LiveMappings::get().size(), 1u);
}

TEST_F(ArenaBlock, listeners_are_notified_of_blocks_not_of_allocations) {
    Recorder recorder;
    LiveMappings::get().add_listener(cards(), recorder);
    const std::uint64_t a = value(arena().allocate({.length = 2 * kPage}));
    const std::uint64_t b = value(arena().allocate({.length = kMiB}));
    const std::uint64_t c = value(arena().allocate({.length = kMiB}));
    const std::uint64_t unmapped_before = Counters(card()).calls("memory_unmap");
    std::uint64_t unmapped_meanwhile = UINT64_MAX;
    recorder.while_unmapping = [&] { unmapped_meanwhile = Counters(card()).calls("memory_unmap"); };
    arena().free(c);
    arena().free(a);
    EXPECT_THAT(recorder.events, ElementsAre("mapped", "mapped", "unmapping"));
    EXPECT_THAT(recorder.bases, ElementsAre(a, b, a));
    EXPECT_EQ(unmapped_meanwhile, unmapped_before) << "listeners are notified before the driver unmaps";
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), unmapped_before + 1);
}

TEST_F(ArenaBlock, added_listener_is_notified_of_existing_blocks_until_removed) {
    const std::uint64_t a = take_block();
    Recorder late;
    LiveMappings::get().add_listener(cards(), late);
    EXPECT_THAT(late.bases, ElementsAre(a));
    LiveMappings::get().remove_listener(late);
    take_block();
    EXPECT_THAT(late.events, ElementsAre("mapped"));
}

TEST_F(ArenaBlock, unmap_of_an_imported_block_is_deferred) {
    const std::uint64_t keep = value(arena().allocate({.length = kMiB}));
    const std::uint64_t large = value(arena().allocate({.length = 2 * kPage}));
    auto imported = value(find_region(large)->dmabuf());
    EXPECT_TRUE(arena().free(large));
    EXPECT_EQ(arena().usage().deferred_unmaps, 1u);
    EXPECT_EQ(arena().usage().blocks, 1u);
    EXPECT_EQ(find_region(large), nullptr) << "the block is not used any more";
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 3 * kPage) << "the driver still has it";
    EXPECT_TRUE(arena().free(value(arena().allocate({.length = kMiB}))));
    EXPECT_EQ(arena().usage().deferred_unmaps, 1u) << "tried again, in vain";

    value(imported.close());
    EXPECT_TRUE(arena().free(value(arena().allocate({.length = kMiB}))));
    EXPECT_EQ(arena().usage().deferred_unmaps, 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], kPage);
    EXPECT_TRUE(arena().free(keep));
}

/// The driver writes a line to the kernel's log for each unmap that it refuses.
TEST_F(ArenaBlock, deferred_unmap_is_tried_a_handful_of_times_while_it_is_imported) {
    const std::uint64_t keep = value(arena().allocate({.length = kMiB}));
    const std::uint64_t large = value(arena().allocate({.length = 2 * kPage}));
    auto imported = value(find_region(large)->dmabuf());
    EXPECT_TRUE(arena().free(large));
    const std::uint64_t before = Counters(card()).calls("memory_unmap");
    for (unsigned i = 0; i < 5000; ++i)
        ASSERT_TRUE(arena().free(value(arena().allocate({.length = kMiB}))));
    EXPECT_LE(Counters(card()).calls("memory_unmap"), before + 30) << "of 10,000 opportunities";
    EXPECT_EQ(arena().usage().deferred_unmaps, 1u);

    value(imported.close());
    EXPECT_TRUE(is_ok(arena().allocate({.length = 126 * kPage}))) << "memory that is needed is unmapped at once";
    EXPECT_EQ(arena().usage().deferred_unmaps, 0u);
    EXPECT_TRUE(arena().free(keep));
}

TEST_F(ArenaBlock, deferred_unmap_counts_towards_the_limit) {
    const std::uint64_t large = value(arena().allocate({.length = 2 * kPage}));
    auto imported = value(find_region(large)->dmabuf());
    arena().free(large);
    const auto refused = arena().allocate({.length = kMiB, .limit = 2 * kPage});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, HasSubstr("holds 1536 MiB"));
    value(imported.close());
    EXPECT_TRUE(arena().allocate({.length = kMiB, .limit = 2 * kPage}));
}

TEST_F(ArenaBlock, new_block_avoids_a_deferred_unmap) {
    const std::uint64_t large = value(arena().allocate({.length = 2 * kPage}));
    const auto imported = value(find_region(large)->dmabuf());
    arena().free(large);
    for (int i = 0; i < 4; ++i) {
        const std::uint64_t next = value(arena().allocate({.length = 2 * kPage}));
        EXPECT_TRUE(next + 2 * kPage <= large || large + 2 * kPage <= next);
    }
    EXPECT_FALSE(arena().allocate({.length = kMiB, .fixed = large}));
}

TEST_F(ArenaBlock, refused_allocation_leaves_nothing_behind) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#1=ENOMEM");
    const auto refused = arena().allocate({.length = kMiB});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_EQ(arena().usage().blocks, 0u);
    EXPECT_EQ(LiveMappings::get().size(), 0u);
    EXPECT_TRUE(arena().allocate({.length = kMiB})) << "the next request succeeds";
}

TEST_F(ArenaBlock, refused_mapping_leaves_nothing_behind) {
    set("SOFTGAUDI_FAULTS", "device_memory_map#1=ENOMEM");
    Recorder recorder;
    LiveMappings::get().add_listener(cards(), recorder);
    const auto refused = arena().allocate({.length = kMiB});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_EQ(arena().usage().blocks, 0u);
    EXPECT_EQ(LiveMappings::get().size(), 0u);
    EXPECT_TRUE(recorder.events.empty());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_TRUE(arena().allocate({.length = kMiB}));
    EXPECT_EQ(Counters(card())["dram_used_bytes"], kPage);
}

TEST_F(ArenaBlock, refused_fixed_address_leaves_nothing_behind) {
    Recorder recorder;
    LiveMappings::get().add_listener(cards(), recorder);
    ASSERT_FALSE(arena().allocate({.length = kMiB, .fixed = 0x7FFF'FFFF'FFFF'F000}));
    EXPECT_EQ(arena().usage().blocks, 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_EQ(LiveMappings::get().size(), 0u);
}

} // namespace
