// SPDX-License-Identifier: BSD-3-Clause
// Copies through the bounce ring: any number of them in a fixed number of slices.
#include "framework_program.h"

#include "gaudi/copy/stager.h"

#include <algorithm>
#include <memory>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;

namespace {

constexpr std::uint64_t kRoom = BounceRing::kBytes / Stager::kPiece; // pieces at once

class StagerTest : public GaudiTest {
protected:
    /// One copy. Its end is added to the ends of all.
    struct Copy {
        std::vector<const Copy *> *ended;
        int error = -1;
        static void end(void *user, const Error *error) {
            auto &copy = *static_cast<Copy *>(user);
            copy.error = error ? error->code : 0;
            copy.ended->push_back(&copy);
        }
    };
    bool finish() {
        return until([&] {
            for (const auto &engine : m_engines)
                engine->progress();
            m_channel.dispatch();
            m_stager.pump();
            return m_stager.idle();
        });
    }

    Place place_on(Card &card, std::uint64_t address) {
        const auto engine = value(start_engine(card));
        if (std::find(m_engines.begin(), m_engines.end(), engine) == m_engines.end())
            m_engines.push_back(engine);
        return {address, &engine->session(), engine.get()};
    }

    Channel m_channel;
    BounceRing m_ring;
    std::vector<std::shared_ptr<Engine>> m_engines; // of all places
    Stager m_stager{m_channel, m_ring, cards().all().size()};
};

TEST_F(StagerTest, more_copies_than_slices_all_arrive) {
    constexpr std::uint64_t kCopies = 3 * kRoom, kLength = 2 * Stager::kPiece + 777;
    const HostBuffer host(kCopies * kLength);
    const std::uint64_t memory = value(allocate(card(), {.length = kCopies * kLength}));
    const Bytes sent = pattern(kCopies * kLength, 9);
    host.write(0, sent);
    std::vector<const Copy *> ended;
    std::vector<Copy> copies(kCopies, Copy{&ended});
    for (std::uint64_t i = 0; i < kCopies; ++i)
        ASSERT_TRUE(m_stager.post(place_on(card(), memory + i * kLength), {host.address(i * kLength)}, kLength,
                                  Copy::end, &copies[i]));
    EXPECT_TRUE(ended.empty()) << "no copy ends inside the call that posts it";
    EXPECT_LT(m_channel.outstanding(), 3 * kCopies) << "there is not room for all pieces at once";
    ASSERT_TRUE(finish());
    EXPECT_EQ(ended.size(), kCopies);
    for (const Copy &copy : copies)
        EXPECT_EQ(copy.error, 0);
    EXPECT_TRUE(Window(*find_region(memory)).read(memory, sent.size()) == sent);
    EXPECT_EQ(Counters(card()).calls("host_memory_map"), 4u)
        << "command ring, two of the self-test, and the bounce ring once";
}

TEST_F(StagerTest, concurrent_copies_between_two_cards_arrive) {
    constexpr std::uint64_t kLength = 20 * Stager::kPiece + 1;
    const std::uint64_t first = value(allocate(card(0), {.length = 3 * kLength}));
    const std::uint64_t second = value(allocate(card(1), {.length = 3 * kLength}));
    const Window one(*find_region(first)), other(*find_region(second));
    const Bytes sent_forth = pattern(kLength, 1), sent_back = pattern(kLength, 2);
    one.write(first, sent_forth);
    other.write(second, sent_back);
    std::vector<const Copy *> ended;
    Copy forth{&ended}, back{&ended};
    ASSERT_TRUE(
        m_stager.post(place_on(card(1), second + kLength), place_on(card(0), first), kLength, Copy::end, &forth));
    ASSERT_TRUE(
        m_stager.post(place_on(card(0), first + kLength), place_on(card(1), second), kLength, Copy::end, &back));
    ASSERT_TRUE(finish());
    EXPECT_EQ(forth.error, 0);
    EXPECT_EQ(back.error, 0);
    EXPECT_TRUE(other.read(second + kLength, kLength) == sent_forth);
    EXPECT_TRUE(one.read(first + kLength, kLength) == sent_back);
}

TEST_F(StagerTest, source_may_change_once_it_is_staged) {
    const HostBuffer host(4096);
    const std::uint64_t memory = value(allocate(card(), {.length = 4096}));
    const Bytes sent = pattern(4096, 4);
    host.write(0, sent);
    std::vector<const Copy *> ended;
    Copy copy{&ended};
    ASSERT_TRUE(m_stager.post(place_on(card(), memory), {host.address()}, 4096, Copy::end, &copy));
    host.write(0, Bytes(4096));
    ASSERT_TRUE(finish());
    EXPECT_TRUE(Window(*find_region(memory)).read(memory, 4096) == sent);
}

TEST_F(StagerTest, copy_that_waits_at_close_does_not_reach_the_next_session) {
    constexpr std::uint64_t kLength = 3 * kRoom * Stager::kPiece; // most of it waits for room
    const HostBuffer host(kLength);
    host.write(0, pattern(kLength, 5));
    auto framework = std::make_unique<FrameworkProgram>(card().bus_id());
    const std::uint64_t memory = framework->allocate(kLength).address;
    ASSERT_NE(look_up(memory), nullptr);
    std::vector<const Copy *> ended;
    Copy copy{&ended};
    ASSERT_TRUE(m_stager.post(place_on(card(), memory), {host.address()}, kLength, Copy::end, &copy));
    const int fd = framework->fd();
    ASSERT_EQ(card().before_close(fd), Card::CloseResult::released);
    framework.reset();
    card().after_close(fd);
    // The next session has memory at the same address.
    const FrameworkProgram next(card().bus_id());
    ASSERT_EQ(next.allocate(kLength).address, memory);
    ASSERT_NE(look_up(memory), nullptr);
    value(start_engine(card()));
    ASSERT_TRUE(finish());
    EXPECT_EQ(copy.error, EIO);
    EXPECT_TRUE(Window(*find_region(memory)).read(memory, kLength) == Bytes(kLength)) << "fresh memory";
}

} // namespace
