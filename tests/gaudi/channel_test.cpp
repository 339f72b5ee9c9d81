// SPDX-License-Identifier: BSD-3-Clause
// How the owner of a channel learns of the ends of copies: in order, from its own calls, and by an event descriptor.
#include "engine_user.h"

#include "gaudi/copy/mover.h"

#include <gmock/gmock.h>

#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::ElementsAre;

namespace {

class Event {
public:
    Event() : m_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~Event() { close(m_fd); }
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;

    int fd() const { return m_fd; }
    bool wait(int limit_ms = 60'000) const {
        pollfd entry{m_fd, POLLIN, 0};
        return poll(&entry, 1, limit_ms) == 1;
    }
    void clear() const {
        std::uint64_t count = 0;
        (void)!read(m_fd, &count, sizeof count);
    }

private:
    int m_fd;
};

Transfer *take(Channel &channel, std::vector<int> &ended, int name) {
    Transfer *transfer = channel.take();
    transfer->user = &ended;
    transfer->length = static_cast<std::uint64_t>(name);
    transfer->done = [](Transfer &done) {
        static_cast<std::vector<int> *>(done.user)->push_back(static_cast<int>(done.length));
    };
    return transfer;
}

TEST(Channel, take_never_fails_and_reuses_ended_transfers) {
    Channel channel;
    std::set<Transfer *> taken;
    std::vector<int> ended;
    for (int i = 0; i < 10'000; ++i)
        taken.insert(take(channel, ended, i));
    EXPECT_EQ(taken.size(), 10'000u);
    EXPECT_EQ(channel.outstanding(), 10'000u);
    Transfer *first = *taken.begin();
    channel.finish(*first);
    EXPECT_EQ(channel.dispatch(), 1u);
    EXPECT_EQ(channel.outstanding(), 9'999u);
    EXPECT_EQ(channel.take(), first);
}

TEST(Channel, dispatch_calls_completions_in_order_of_their_ends) {
    Channel channel;
    std::vector<int> ended;
    Transfer *first = take(channel, ended, 1), *second = take(channel, ended, 2), *third = take(channel, ended, 3);
    EXPECT_FALSE(channel.has_finished());
    EXPECT_EQ(channel.dispatch(), 0u);
    channel.finish(*second);
    channel.finish(*first);
    channel.finish(*third);
    EXPECT_TRUE(channel.has_finished());
    EXPECT_TRUE(ended.empty());
    EXPECT_EQ(channel.dispatch(), 3u);
    EXPECT_THAT(ended, ElementsAre(2, 1, 3));
    EXPECT_EQ(channel.outstanding(), 0u);
    EXPECT_FALSE(channel.has_finished());
}

TEST(Channel, completion_may_take_the_next_transfer) {
    Channel channel;
    Transfer *first = channel.take();
    first->done = [](Transfer &done) { EXPECT_NE(done.channel->take(), nullptr); };
    channel.finish(*first);
    EXPECT_EQ(channel.dispatch(), 1u);
    EXPECT_EQ(channel.outstanding(), 1u);
}

TEST(Channel, armed_channel_writes_its_descriptor_once) {
    Channel channel;
    const Event event;
    std::vector<int> ended;
    Transfer *first = take(channel, ended, 1), *second = take(channel, ended, 2);
    EXPECT_TRUE(channel.arm(event.fd()));
    EXPECT_FALSE(event.wait(0));
    channel.finish(*first);
    EXPECT_TRUE(event.wait());
    event.clear();
    channel.finish(*second);
    EXPECT_FALSE(event.wait(0)) << "the channel was armed for one end";
    EXPECT_FALSE(channel.arm(event.fd())) << "a transfer has ended already";
    EXPECT_EQ(channel.dispatch(), 2u);
    EXPECT_TRUE(channel.arm(event.fd()));
}

TEST(Channel, end_between_arm_and_wait_is_not_missed) {
    constexpr int kRounds = 20'000;
    Channel channel;
    const Event event;
    std::vector<int> ended;
    std::atomic<Transfer *> handed{nullptr};
    std::thread engine([&] {
        for (int round = 0; round < kRounds; ++round) {
            Transfer *transfer = nullptr;
            while (!(transfer = handed.exchange(nullptr)))
                std::this_thread::yield();
            channel.finish(*transfer);
        }
    });
    int woken_in_time = 0;
    for (int round = 0; round < kRounds; ++round) {
        handed.store(take(channel, ended, round));
        if (!channel.arm(event.fd()) || event.wait())
            ++woken_in_time;
        else
            break;
        event.clear();
        while (channel.dispatch() == 0)
            std::this_thread::yield();
    }
    EXPECT_EQ(woken_in_time, kRounds);
    if (woken_in_time != kRounds)
        std::_Exit(1); // the thread waits for a transfer that will not come
    engine.join();
    EXPECT_EQ(ended.size(), static_cast<std::size_t>(kRounds));
}

class Arming : public GaudiTest {
protected:
    static Mover::Operation operation(std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                                      Tally &tally) {
        return {destination, source, length, nullptr, Tally::count, &tally};
    }
    /// Waits for the event descriptor only, without polling.
    static void sleep_until_idle(Mover &mover, const Event &event) {
        ASSERT_TRUE(until([&] {
            while (mover.progress() != 0) {
            }
            if (mover.outstanding() == 0)
                return true;
            if (mover.arm(event.fd())) {
                EXPECT_TRUE(event.wait());
                event.clear();
            }
            return ::testing::Test::HasFailure();
        }));
    }
};

TEST_F(Arming, end_of_a_copy_wakes_the_user) {
    Mover mover(cards());
    const Event event;
    const HostBuffer host(kMiB);
    const std::uint64_t device = value(allocate(card(), {.length = kMiB}));
    Tally tally;
    for (int round = 0; round < 20; ++round) {
        for (std::uint64_t i = 0; i < 4; ++i)
            ASSERT_EQ(mover.post(operation(device + i * 100'000, host.address(i * 100'000), 60'000, tally)),
                      Mover::Posted::started);
        sleep_until_idle(mover, event);
    }
    EXPECT_EQ(tally.failed, 0u) << tally.problem;
}

TEST_F(Arming, open_batch_is_sent_while_the_user_sleeps) {
    const Event event;
    EngineUser engine(card());
    for (std::uint64_t i = 0; i < 10; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    EXPECT_EQ(engine.submissions(), 1u);
    while (engine.channel.outstanding() != 0) {
        if (engine.channel.arm(event.fd())) {
            engine.engine.arm();
            ASSERT_TRUE(event.wait());
            event.clear();
        }
        engine.channel.dispatch(); // and never progress
    }
    EXPECT_EQ(engine.ended, 10u);
}

TEST_F(Arming, card_reset_wakes_the_user) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "reset"));
    Mover mover(cards());
    const Event event;
    const HostBuffer host(kMiB);
    const std::uint64_t device = value(allocate(card(), {.length = kMiB}));
    Tally tally;
    for (std::uint64_t i = 0; i < 10; ++i)
        ASSERT_EQ(mover.post(operation(device + i * 100'000, host.address(i * 100'000), 60'000, tally)),
                  Mover::Posted::started);
    sleep_until_idle(mover, event);
    EXPECT_GT(tally.failed, 0u);
}

TEST_F(Arming, copy_that_failed_at_its_post_refuses_to_arm) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#4=EFAULT"); // the bounce ring
    Mover mover(cards());
    const Event event;
    const HostBuffer host(kMiB);
    const std::uint64_t device = value(allocate(card(), {.length = kMiB}));
    Tally tally;
    ASSERT_EQ(mover.post(operation(device, host.address(), 100, tally)), Mover::Posted::started);
    EXPECT_EQ(tally.ended, 0u);
    EXPECT_FALSE(mover.arm(event.fd())) << "a copy has ended already";
    mover.progress();
    EXPECT_EQ(tally.failed, 1u);
    EXPECT_EQ(mover.outstanding(), 0u);
}

} // namespace
