// SPDX-License-Identifier: BSD-3-Clause
// Where ends of copies are told: to the owner, in order, from its own calls, and through a descriptor while it sleeps.
#include "engine.h"

#include <gmock/gmock.h>

#include <poll.h>
#include <sys/eventfd.h>

#include "gaudi/mover.h"

#include <set>

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
    bool comes(int limit_ms = 60'000) const {
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
    transfer->done = [](Transfer &over) {
        static_cast<std::vector<int> *>(over.user)->push_back(static_cast<int>(over.length));
    };
    return transfer;
}

TEST(Channel, there_is_always_one_more_and_those_that_ended_come_first) {
    Channel channel;
    std::set<Transfer *> taken;
    std::vector<int> ended;
    for (int i = 0; i < 10'000; ++i)
        taken.insert(take(channel, ended, i));
    EXPECT_EQ(taken.size(), 10'000u);
    EXPECT_EQ(channel.outstanding(), 10'000u);
    Transfer *over = *taken.begin();
    channel.finish(*over);
    EXPECT_EQ(channel.dispatch(), 1u);
    EXPECT_EQ(channel.outstanding(), 9'999u);
    EXPECT_EQ(channel.take(), over);
}

TEST(Channel, ends_are_told_in_order_and_only_when_the_owner_asks) {
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

TEST(Channel, the_next_copy_may_be_started_by_the_end_of_one) {
    Channel channel;
    Transfer *first = channel.take();
    first->done = [](Transfer &over) { EXPECT_NE(over.channel->take(), nullptr); };
    channel.finish(*first);
    EXPECT_EQ(channel.dispatch(), 1u);
    EXPECT_EQ(channel.outstanding(), 1u);
}

TEST(Channel, an_armed_one_writes_its_descriptor_once) {
    Channel channel;
    const Event event;
    std::vector<int> ended;
    Transfer *first = take(channel, ended, 1), *second = take(channel, ended, 2);
    EXPECT_TRUE(channel.arm(event.fd()));
    EXPECT_FALSE(event.comes(0));
    channel.finish(*first);
    EXPECT_TRUE(event.comes());
    event.clear();
    channel.finish(*second);
    EXPECT_FALSE(event.comes(0)) << "armed for one";
    EXPECT_FALSE(channel.arm(event.fd())) << "there is something already";
    EXPECT_EQ(channel.dispatch(), 2u);
    EXPECT_TRUE(channel.arm(event.fd()));
}

TEST(Channel, no_end_is_missed_between_looking_and_sleeping) {
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
        if (!channel.arm(event.fd()) || event.comes())
            ++woken_in_time;
        else
            break;
        event.clear();
        while (channel.dispatch() == 0)
            std::this_thread::yield();
    }
    EXPECT_EQ(woken_in_time, kRounds);
    if (woken_in_time != kRounds)
        std::_Exit(1); // the thread waits for what will not come
    engine.join();
    EXPECT_EQ(ended.size(), static_cast<std::size_t>(kRounds));
}

class Arming : public GaudiTest {
protected:
    static Mover::Operation operation(std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                                      int &errors) {
        return {destination,
                source,
                length,
                nullptr,
                [](void *user, int error) { *static_cast<int *>(user) += error == 0 ? 0 : 1; },
                &errors};
    }
    /// Without polling: only the descriptor tells.
    static void sleep_until_over(Mover &mover, const Event &event) {
        ASSERT_TRUE(until([&] {
            while (mover.progress() != 0) {
            }
            if (mover.outstanding() == 0)
                return true;
            if (mover.arm(event.fd())) {
                EXPECT_TRUE(event.comes());
                event.clear();
            }
            return ::testing::Test::HasFailure();
        }));
    }
};

TEST_F(Arming, a_sleeper_is_woken_by_the_end_of_a_copy) {
    Mover mover(cards());
    const Event event;
    const HostMemory host(kMiB);
    const std::uint64_t device = value(card().arena().allocate({.length = kMiB}));
    int errors = 0;
    for (int round = 0; round < 20; ++round) {
        for (std::uint64_t i = 0; i < 4; ++i)
            ASSERT_EQ(mover.post(operation(device + i * 100'000, host.address(i * 100'000), 60'000, errors)),
                      Mover::Posted::started);
        sleep_until_over(mover, event);
    }
    EXPECT_EQ(errors, 0);
}

TEST_F(Arming, copies_still_in_a_batch_are_sent_while_the_user_sleeps) {
    const Event event;
    Engine engine(card());
    for (std::uint64_t i = 0; i < 10; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    EXPECT_EQ(engine.submissions(), 1u);
    while (engine.channel.outstanding() != 0) {
        if (engine.channel.arm(event.fd())) {
            engine.copier.watch();
            ASSERT_TRUE(event.comes());
            event.clear();
        }
        engine.channel.dispatch(); // and never progress
    }
    EXPECT_EQ(engine.ended, 10u);
}

TEST_F(Arming, a_sleeper_is_woken_when_the_card_is_reset) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "reset"));
    Mover mover(cards());
    const Event event;
    const HostMemory host(kMiB);
    const std::uint64_t device = value(card().arena().allocate({.length = kMiB}));
    int errors = 0;
    for (std::uint64_t i = 0; i < 10; ++i)
        ASSERT_EQ(mover.post(operation(device + i * 100'000, host.address(i * 100'000), 60'000, errors)),
                  Mover::Posted::started);
    sleep_until_over(mover, event);
    EXPECT_GT(errors, 0);
}

TEST_F(Arming, a_copy_that_failed_while_it_was_posted_needs_no_waking) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#4=EFAULT"); // the memory to stage in
    Mover mover(cards());
    const Event event;
    const HostMemory host(kMiB);
    const std::uint64_t device = value(card().arena().allocate({.length = kMiB}));
    int errors = 0;
    ASSERT_EQ(mover.post(operation(device, host.address(), 100, errors)), Mover::Posted::started);
    EXPECT_EQ(errors, 0);
    EXPECT_FALSE(mover.arm(event.fd())) << "there is an end to tell";
    mover.progress();
    EXPECT_EQ(errors, 1);
    EXPECT_EQ(mover.outstanding(), 0u);
}

} // namespace
