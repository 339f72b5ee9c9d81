// SPDX-License-Identifier: BSD-3-Clause
// Copies through memory of our own: any number of them on a fixed number of slots.
#include "framework_program.h"

#include "gaudi/stager.h"

using namespace gaudi;
using namespace gaudi::test;

namespace {

constexpr std::uint64_t kRoom = BounceRing::kBytes / Stager::kPiece; // pieces at once

class StagerTest : public GaudiTest {
protected:
    struct Tally {
        std::vector<std::uint64_t> *order;
        std::uint64_t name;
        int error = -1;
        static void end(void *user, int error) {
            auto &tally = *static_cast<Tally *>(user);
            tally.error = error;
            tally.order->push_back(tally.name);
        }
    };
    bool finish() {
        return until([&] {
            for (const auto &used : cards().all())
                if (Copier *copier = used->copier_if_started())
                    copier->progress();
            m_channel.dispatch();
            m_stager.pump();
            return m_stager.idle();
        });
    }

    static Place on(Card &card, std::uint64_t address) { return {address, &card, value(card.copier())}; }

    Channel m_channel;
    BounceRing m_ring;
    Stager m_stager{m_channel, m_ring};
};

TEST_F(StagerTest, more_copies_than_slots_all_arrive) {
    constexpr std::uint64_t kCopies = 3 * kRoom, kLength = 2 * Stager::kPiece + 777;
    const HostMemory host(kCopies * kLength);
    const std::uint64_t memory = value(card().arena().allocate({.length = kCopies * kLength}));
    const Bytes sent = pattern(kCopies * kLength, 9);
    host.write(0, sent);
    std::vector<std::uint64_t> order;
    std::vector<Tally> tallies;
    for (std::uint64_t i = 0; i < kCopies; ++i)
        tallies.push_back({&order, i});
    for (std::uint64_t i = 0; i < kCopies; ++i)
        ASSERT_TRUE(m_stager.post(on(card(), memory + i * kLength), {host.address(i * kLength)}, kLength, Tally::end,
                                  &tallies[i]));
    EXPECT_TRUE(order.empty()) << "nothing ends inside the call that starts it";
    EXPECT_LT(m_channel.outstanding(), 3 * kCopies) << "there is not room for all pieces at once";
    ASSERT_TRUE(finish());
    EXPECT_EQ(order.size(), kCopies);
    for (const Tally &tally : tallies)
        EXPECT_EQ(tally.error, 0);
    EXPECT_TRUE(Window(*cards().find(memory)).read(memory, sent.size()) == sent);
    EXPECT_EQ(Counters(card()).calls("host_memory_map"), 4u) << "ring, self-test, and the slots once";
}

TEST_F(StagerTest, copies_between_cards_in_both_directions_at_once) {
    constexpr std::uint64_t kLength = 20 * Stager::kPiece + 1;
    const std::uint64_t first = value(card(0).arena().allocate({.length = 3 * kLength}));
    const std::uint64_t second = value(card(1).arena().allocate({.length = 3 * kLength}));
    const Window one(*cards().find(first)), other(*cards().find(second));
    const Bytes there = pattern(kLength, 1), back = pattern(kLength, 2);
    one.write(first, there);
    other.write(second, back);
    std::vector<std::uint64_t> order;
    Tally a{&order, 1}, b{&order, 2};
    ASSERT_TRUE(m_stager.post(on(card(1), second + kLength), on(card(0), first), kLength, Tally::end, &a));
    ASSERT_TRUE(m_stager.post(on(card(0), first + kLength), on(card(1), second), kLength, Tally::end, &b));
    ASSERT_TRUE(finish());
    EXPECT_EQ(a.error, 0);
    EXPECT_EQ(b.error, 0);
    EXPECT_TRUE(other.read(second + kLength, kLength) == there);
    EXPECT_TRUE(one.read(first + kLength, kLength) == back);
}

TEST_F(StagerTest, the_source_may_change_once_its_bytes_are_staged_and_not_before) {
    const HostMemory host(4096);
    const std::uint64_t memory = value(card().arena().allocate({.length = 4096}));
    const Bytes sent = pattern(4096, 4);
    host.write(0, sent);
    std::vector<std::uint64_t> order;
    Tally tally{&order, 1};
    ASSERT_TRUE(m_stager.post(on(card(), memory), {host.address()}, 4096, Tally::end, &tally));
    host.write(0, Bytes(4096));
    ASSERT_TRUE(finish());
    EXPECT_TRUE(Window(*cards().find(memory)).read(memory, 4096) == sent);
}

TEST_F(StagerTest, what_waits_when_a_card_is_closed_never_reaches_its_next_life) {
    constexpr std::uint64_t kLength = 3 * kRoom * Stager::kPiece; // most of it waits for room
    const HostMemory host(kLength);
    host.write(0, pattern(kLength, 5));
    auto other = std::make_unique<Other>(card().bus_id());
    const std::uint64_t memory = other->allocate(kLength).address;
    ASSERT_NE(cards().look_up(memory), nullptr);
    std::vector<std::uint64_t> order;
    Tally tally{&order, 1};
    ASSERT_TRUE(m_stager.post(on(card(), memory), {host.address()}, kLength, Tally::end, &tally));
    const int fd = other->fd();
    ASSERT_EQ(card().closing(fd), Card::Kept::by_nobody);
    other.reset();
    card().closed(fd);
    // Somebody has it again, with memory at the same address.
    const Other next(card().bus_id());
    ASSERT_EQ(next.allocate(kLength).address, memory);
    ASSERT_NE(cards().look_up(memory), nullptr);
    value(card().copier());
    ASSERT_TRUE(finish());
    EXPECT_EQ(tally.error, EIO);
    EXPECT_TRUE(Window(*cards().find(memory)).read(memory, kLength) == Bytes(kLength)) << "fresh memory";
}

} // namespace
