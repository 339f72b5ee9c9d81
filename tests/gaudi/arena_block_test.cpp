// SPDX-License-Identifier: BSD-3-Clause
// The life of driver blocks: when they are taken, when they are given back, who is told, and what a refusal leaves.
#include "gaudi.h"

#include <gmock/gmock.h>

#include <functional>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

class ArenaBlock : public GaudiTest {
protected:
    static Arena &arena() { return card().arena(); }
    static std::uint64_t block() { return value(arena().allocate({.length = kPage})); }
};

/// Writes down what it hears, and looks at the world at that very moment.
class Recorder : public MappingListener {
public:
    explicit Recorder(Cards &cards) : m_cards(cards) {}
    void mapped(const Region &region) override {
        heard.push_back("mapped");
        bases.push_back(region.base());
        EXPECT_EQ(m_cards.find(region.base()), &region) << "it can be found when one hears of it";
    }
    void unmapping(const Region &region) override {
        heard.push_back("unmapping");
        bases.push_back(region.base());
        EXPECT_EQ(m_cards.find(region.base()), &region) << "it is still there";
        if (while_unmapping)
            while_unmapping();
    }

    std::vector<std::string> heard;
    std::vector<std::uint64_t> bases;
    std::function<void()> while_unmapping;

private:
    Cards &m_cards;
};

TEST_F(ArenaBlock, empty_blocks_are_given_back_except_one) {
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 5; ++i)
        blocks.push_back(block());
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

TEST_F(ArenaBlock, the_empty_one_is_given_back_where_it_is_in_the_way) {
    arena().free(block());
    ASSERT_EQ(arena().usage().block_bytes, kPage);
    EXPECT_TRUE(arena().allocate({.length = 2 * kPage, .limit = 2 * kPage})) << "of the cap";
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 2 * kPage);

    card(1).arena().free(value(card(1).arena().allocate({.length = kPage})));
    EXPECT_TRUE(card(1).arena().free(value(card(1).arena().allocate({.length = 127 * kPage}))))
        << "of the card's memory";
}

TEST_F(ArenaBlock, what_was_given_back_is_no_longer_gaudi_memory) {
    const std::uint64_t first = block(), second = block();
    arena().free(second);
    EXPECT_NE(cards().find(second), nullptr) << "the one that is kept";
    arena().free(first);
    EXPECT_EQ(cards().find(first), nullptr);
    EXPECT_EQ(cards().addresses().size(), 1u);
}

TEST_F(ArenaBlock, listeners_hear_of_blocks_in_order_and_not_of_allocations) {
    Recorder recorder(cards());
    cards().add_listener(recorder);
    const std::uint64_t a = value(arena().allocate({.length = 2 * kPage}));
    const std::uint64_t b = value(arena().allocate({.length = kMiB}));
    const std::uint64_t c = value(arena().allocate({.length = kMiB}));
    const std::uint64_t unmapped_before = Counters(card()).calls("memory_unmap");
    std::uint64_t unmapped_meanwhile = UINT64_MAX;
    recorder.while_unmapping = [&] { unmapped_meanwhile = Counters(card()).calls("memory_unmap"); };
    arena().free(c);
    arena().free(a);
    EXPECT_THAT(recorder.heard, ElementsAre("mapped", "mapped", "unmapping"));
    EXPECT_THAT(recorder.bases, ElementsAre(a, b, a));
    EXPECT_EQ(unmapped_meanwhile, unmapped_before) << "heard before the driver unmaps";
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), unmapped_before + 1);
}

TEST_F(ArenaBlock, a_new_listener_hears_of_what_is_there_and_an_old_one_of_nothing_more) {
    const std::uint64_t a = block();
    Recorder late(cards());
    cards().add_listener(late);
    EXPECT_THAT(late.bases, ElementsAre(a));
    cards().remove_listener(late);
    block();
    EXPECT_THAT(late.heard, ElementsAre("mapped"));
}

TEST_F(ArenaBlock, one_that_is_still_imported_is_kept_and_given_back_later) {
    const std::uint64_t keep = value(arena().allocate({.length = kMiB}));
    const std::uint64_t large = value(arena().allocate({.length = 2 * kPage}));
    auto imported = value(cards().find(large)->dmabuf());
    EXPECT_TRUE(arena().free(large));
    EXPECT_EQ(arena().usage().lingering, 1u);
    EXPECT_EQ(arena().usage().blocks, 1u);
    EXPECT_EQ(cards().find(large), nullptr) << "it is not ours to use any more";
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 3 * kPage) << "the driver still has it";
    EXPECT_TRUE(arena().free(value(arena().allocate({.length = kMiB}))));
    EXPECT_EQ(arena().usage().lingering, 1u) << "tried again, in vain";

    value(imported.close());
    EXPECT_TRUE(arena().free(value(arena().allocate({.length = kMiB}))));
    EXPECT_EQ(arena().usage().lingering, 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], kPage);
    EXPECT_TRUE(arena().free(keep));
}

TEST_F(ArenaBlock, what_lingers_counts_against_the_cap) {
    const std::uint64_t large = value(arena().allocate({.length = 2 * kPage}));
    auto imported = value(cards().find(large)->dmabuf());
    arena().free(large);
    const auto refused = arena().allocate({.length = kMiB, .limit = 2 * kPage});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, HasSubstr("holds 1536 MiB"));
    value(imported.close());
    EXPECT_TRUE(arena().allocate({.length = kMiB, .limit = 2 * kPage}));
}

TEST_F(ArenaBlock, a_block_never_lies_where_one_lingers) {
    const std::uint64_t large = value(arena().allocate({.length = 2 * kPage}));
    const auto imported = value(cards().find(large)->dmabuf());
    arena().free(large);
    for (int i = 0; i < 4; ++i) {
        const std::uint64_t next = value(arena().allocate({.length = 2 * kPage}));
        EXPECT_TRUE(next + 2 * kPage <= large || large + 2 * kPage <= next);
    }
    EXPECT_FALSE(arena().allocate({.length = kMiB, .fixed = large}));
}

TEST_F(ArenaBlock, a_refused_allocation_leaves_nothing_behind) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#1=ENOMEM");
    const auto refused = arena().allocate({.length = kMiB});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_EQ(arena().usage().blocks, 0u);
    EXPECT_EQ(cards().addresses().size(), 0u);
    EXPECT_TRUE(arena().allocate({.length = kMiB})) << "the next one works";
}

TEST_F(ArenaBlock, a_refused_mapping_leaves_nothing_behind) {
    set("SOFTGAUDI_FAULTS", "device_memory_map#1=ENOMEM");
    Recorder recorder(cards());
    cards().add_listener(recorder);
    const auto refused = arena().allocate({.length = kMiB});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_EQ(arena().usage().blocks, 0u);
    EXPECT_EQ(cards().addresses().size(), 0u);
    EXPECT_TRUE(recorder.heard.empty());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_TRUE(arena().allocate({.length = kMiB}));
    EXPECT_EQ(Counters(card())["dram_used_bytes"], kPage);
}

TEST_F(ArenaBlock, a_fixed_address_that_the_driver_does_not_give_leaves_nothing_behind) {
    Recorder recorder(cards());
    cards().add_listener(recorder);
    ASSERT_FALSE(arena().allocate({.length = kMiB, .fixed = 0x7FFF'FFFF'FFFF'F000}));
    EXPECT_EQ(arena().usage().blocks, 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_EQ(cards().addresses().size(), 0u);
}

} // namespace
