// SPDX-License-Identifier: BSD-3-Clause
// A card that its driver resets, for a program without UCX: the session ends at the next allocation, and a new one begins.
#include "engine_user.h"

#include "gaudi/host/host_memory.h"
#include "gaudi/memory/lost_memory.h"

#include <gmock/gmock.h>

#include <poll.h>

#include <atomic>
#include <thread>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class CardInReset : public GaudiTest {
protected:
    /// Has the driver reset the card at the next query of its clock.
    CardInReset() { set("SOFTGAUDI_FAULTS", "get_reset_count_info=reset"); }
    static void reset(const Session &session) { (void)session.device().reset_count(); }

    static Session &open() { return *value(card().open()); }
    const HostBuffer m_host{kMiB};
};

TEST_F(CardInReset, events_are_watched_in_an_own_session) {
    Session &session = open();
    pollfd ready{session.event_descriptor(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 0), 0);
    EXPECT_FALSE(session.check_events());
    reset(session);
    EXPECT_EQ(poll(&ready, 1, 0), 1);
    EXPECT_TRUE(session.check_events());
    EXPECT_TRUE(session.check_events()) << "for ever";
    EXPECT_TRUE(session.usable()) << "until it is ended";
    EXPECT_TRUE(card().close_if_lost());
    EXPECT_FALSE(session.usable());
    EXPECT_EQ(session.event_descriptor(), -1);
    EXPECT_FALSE(card().close_if_lost());
}

TEST_F(CardInReset, next_allocation_opens_the_card_anew) {
    const std::uint64_t old = value(allocate(card(), {.length = kMiB}));
    const Session &session = open();
    ASSERT_TRUE(is_ok(Mover(cards()).copy_now(old, m_host.address(), kMiB)));
    reset(session);
    const std::uint64_t fresh = value(allocate(card(), {.length = kMiB}));
    EXPECT_NE(&open(), &session);
    EXPECT_NE(fresh, old);
    EXPECT_EQ(find_region(old), nullptr);
    ASSERT_TRUE(LostMemory::get().find(old));
    EXPECT_EQ(&LostMemory::get().find(old)->card, &card());
    EXPECT_FALSE(LostMemory::get().find(fresh));
    Mover mover(cards());
    const auto copied = mover.copy_now(old, m_host.address(), kMiB);
    EXPECT_EQ(code_of(copied), ENODEV);
    EXPECT_THAT(text_of(copied), HasSubstr("was reset by its driver"));
    EXPECT_TRUE(is_ok(mover.copy_now(fresh, m_host.address(), kMiB)));
}

TEST_F(CardInReset, framework_that_gets_the_card_can_watch_it_itself) {
    open();
    const int fd = value(hand_over(card()));
    ASSERT_GE(fd, 0);
    const thunk::DeviceFd framework(thunk::Device(card().library(), fd));
    EXPECT_TRUE(is_ok(thunk::create_notifier(framework.get()))) << "the driver takes one registration";
    EXPECT_EQ(open().event_descriptor(), -1) << "the adopted session leaves it to the framework";
    card().before_close(fd);
}

TEST_F(CardInReset, host_memory_is_mapped_no_more) {
    Session &session = open();
    HostRange range(m_host.address(), m_host.size(), cards().all().size(), HostRange::Residency::evictable);
    ASSERT_TRUE(is_ok(range.map(session, m_host.address())));
    EXPECT_EQ(HostMemory::get().mapped_bytes(), m_host.size());
    reset(session);
    EXPECT_TRUE(card().close_if_lost());
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 0u);
    EXPECT_EQ(code_of(range.map(session, m_host.address())), ENODEV);
}

TEST_F(CardInReset, memory_at_a_lost_address_is_found_again_where_the_driver_maps_it) {
    const std::uint64_t old = value(allocate(card(), {.length = kMiB}));
    reset(open());
    EXPECT_EQ(value(allocate(card(), {.length = kMiB, .fixed = old})), old);
    EXPECT_FALSE(LostMemory::get().find(old));
    EXPECT_NE(find_region(old), nullptr);
}

TEST_F(CardInReset, failed_recv_leaves_the_state_of_the_card_to_decide) {
    set("SOFTGAUDI_FAULTS", "get_reset_count_info=reset;notifier_recv=EIO");
    Session &session = open();
    EXPECT_FALSE(session.check_events());
    reset(session);
    EXPECT_TRUE(session.check_events());
}

TEST_F(CardInReset, card_without_a_notifier_is_asked_for_its_state) {
    set("SOFTGAUDI_FAULTS", "get_reset_count_info=reset;notifier_create=EOPNOTSUPP");
    const std::uint64_t old = value(allocate(card(), {.length = kMiB}));
    const Session &session = open();
    EXPECT_EQ(session.event_descriptor(), -1);
    EXPECT_THAT(session.why_no_events(), HasSubstr("EOPNOTSUPP"));
    reset(session);
    EXPECT_NE(value(allocate(card(), {.length = kMiB})), old);
    EXPECT_NE(&open(), &session);
}

TEST_F(CardInReset, is_closed_once_whichever_threads_see_it) {
    for (int round = 0; round < 20; ++round) {
        Session &session = open();
        const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
        std::atomic<bool> go{false};
        std::atomic<unsigned> closed{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i)
            threads.emplace_back([&] {
                while (!go)
                    std::this_thread::yield();
                closed += card().close_if_lost() ? 1 : 0;
            });
        threads.emplace_back([&] { // the framework opens the card meanwhile
            while (!go)
                std::this_thread::yield();
            if (const auto handed = hand_over(card()); handed && *handed >= 0)
                ::close(*handed);
        });
        threads.emplace_back([&] {
            Mover mover(cards());
            while (!go)
                (void)mover.copy_now(memory, m_host.address(), 64 * kKiB);
            EXPECT_FALSE(mover.copy_now(memory, m_host.address(), 64 * kKiB));
        });
        reset(session);
        go = true;
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(closed, 1u);
        EXPECT_FALSE(session.usable());
    }
}

} // namespace
