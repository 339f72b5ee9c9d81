// SPDX-License-Identifier: BSD-3-Clause
// A forked child: cards that its parent had opened stay the parent's, and the child may open the others.
#include "engine_user.h"

#include "gaudi/copy/mover.h"
#include "gaudi/host/host_cache.h"

#include <gmock/gmock.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class ForkedChild : public GaudiTest {
protected:
    /// Runs a step in a child, and fails the test where an expectation in it fails.
    static void run_in_child(const std::function<void()> &step) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60); // rather than hang
            step();
            _exit(HasFailure() ? 1 : 0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    static Result<void> copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
        return Mover(cards()).copy_now(destination, source, length);
    }
    const HostBuffer m_host{kMiB};
};

TEST_F(ForkedChild, parents_card_is_refused) {
    const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
    ASSERT_TRUE(is_ok(copy(memory, m_host.address(), kMiB)));
    const std::uint64_t submissions = Counters(card())["submissions"];
    run_in_child([&] {
        const auto refused = allocate(card(), {.length = kMiB});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ENODEV);
        EXPECT_THAT(refused.error().text, HasSubstr("is its parent's"));
        EXPECT_FALSE(card().open());
        EXPECT_FALSE(card().find_session());
        EXPECT_FALSE(start_engine(card()));
        EXPECT_FALSE(copy(memory, m_host.address(), kMiB));
        EXPECT_TRUE(free_on(card(), memory)) << "in the child's copy of the arena";
    });
    EXPECT_EQ(Counters(card())["submissions"], submissions);
    EXPECT_TRUE(is_ok(copy(memory, m_host.address(), kMiB))) << "the parent's memory";
    EXPECT_TRUE(free_on(card(), memory));
}

TEST_F(ForkedChild, parents_cached_host_memory_stays_mapped) {
    HostCache::get().enable();
    Session &session = *value(card().open());
    const auto find = [&] { return HostCache::get().find(m_host.address(), kMiB, cards().all().size()); };
    const auto map = [&] {
        const std::shared_ptr<HostRange> range = find();
        range->hold();
        const auto mapped = range->map(session, m_host.address());
        range->release();
        return is_ok(mapped);
    };
    const HostRange *kept = find().get();
    ASSERT_TRUE(map());
    const std::uint64_t calls = Counters(card()).calls();
    run_in_child([&] {
        HostCache::forget(m_host.address(), kMiB); // as when it is unmapped
        EXPECT_TRUE(HostCache::get().enabled());
        EXPECT_NE(find().get(), kept);
    });
    EXPECT_EQ(find().get(), kept);
    EXPECT_TRUE(map());
    EXPECT_EQ(Counters(card()).calls(), calls) << "it was mapped again";
}

TEST_F(ForkedChild, parents_registration_stays_mapped) {
    const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
    auto range = std::make_unique<HostRange>(m_host.address(), m_host.size(), cards().all().size());
    Mover mover(cards());
    Tally tally;
    const auto copy_registered = [&] {
        return mover.post({memory, m_host.address(), kMiB, range.get(), Tally::count, &tally}) ==
                   Mover::Posted::started &&
               until([&] {
                   mover.progress();
                   return mover.outstanding() == 0;
               });
    };
    ASSERT_TRUE(copy_registered());
    const std::uint64_t calls = Counters(card()).calls();
    run_in_child([&] { range.reset(); });
    EXPECT_EQ(Counters(card()).calls(), calls);
    EXPECT_TRUE(copy_registered());
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
}

TEST_F(ForkedChild, parents_merged_registrations_stay_mapped) {
    constexpr std::uint64_t kPageSize = 4096;
    Session &session = *value(card().open());
    std::vector<std::unique_ptr<HostRange>> ranges;
    const auto add_range = [&](std::uint64_t page) {
        ranges.push_back(std::make_unique<HostRange>(m_host.address(page * kPageSize), kPageSize, cards().all().size(),
                                                     HostRange::Residency::evictable));
    };
    for (const std::uint64_t page : {0u, 1u, 2u, 3u})
        add_range(page);
    ASSERT_TRUE(is_ok(ranges[0]->map(session, ranges[0]->address())));
    const std::uint64_t calls = Counters(card()).calls();
    run_in_child([&] {
        ranges.pop_back();
        add_range(3);
        ranges.clear();
    });
    for (const auto &range : ranges)
        EXPECT_TRUE(is_ok(range->map(session, range->address())));
    EXPECT_EQ(Counters(card()).calls(), calls) << "one was mapped again";
}

TEST_F(ForkedChild, ends_while_its_parent_copies) {
    set("SOFTGAUDI_PACE", "down:0.1"); // 16 MiB take 0.17 s
    const HostBuffer host(16 * kMiB);
    const std::uint64_t memory = value(allocate(card(), {.length = host.size()}));
    HostRange range(host.address(), host.size(), cards().all().size());
    auto mover = std::make_unique<Mover>(cards());
    Tally tally;
    ASSERT_EQ(mover->post({memory, host.address(), host.size(), &range, Tally::count, &tally}), Mover::Posted::started);
    run_in_child([&] {
        mover->progress();
        EXPECT_EQ(tally.ended, 0u);
        mover.reset();
    });
    EXPECT_TRUE(until([&] {
        mover->progress();
        return tally.ended == 1;
    }));
    EXPECT_EQ(tally.failed, 0u);
}

TEST_F(ForkedChild, other_cards_are_opened_and_used) {
    value(card(0).open()); // starts no thread: a thread sanitizer supports no more than that before a fork
    run_in_child([&] {
        EXPECT_EQ(value(cards().choose_default()), &card(1));
        const std::uint64_t own = value(allocate(card(1), {.length = kMiB}));
        EXPECT_TRUE(is_ok(copy(own, m_host.address(), kMiB)));
        EXPECT_TRUE(is_ok(copy(m_host.address(), own, kMiB)));
        EXPECT_TRUE(free_on(card(1), own));
        EXPECT_FALSE(card(0).open());
    });
    EXPECT_FALSE(Counters(card(1)).in_use()) << "it was closed with the child";
    EXPECT_TRUE(card(0).open());
}

#ifndef __SANITIZE_THREAD__ // which ends a forked child that starts a thread

/// A process that died with work on the card, whose forked child still has the descriptor: the driver ends nothing before the
/// child has closed it too.
TEST_F(ForkedChild, keeps_the_card_of_a_parent_that_died_in_use_until_it_ends) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t holder = fork();
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        set("SOFTGAUDI_FAULTS", at_submission(1, "hang"));
        EngineUser engine(card());
        engine.down(0, 0, 4096); // never ends
        pid_t child = fork();
        if (child != 0)
            (void)!write(ends[1], &child, sizeof child);
        while (true)
            pause();
    }
    pid_t child = 0;
    ASSERT_EQ(read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
    ASSERT_EQ(kill(holder, SIGKILL), 0);
    ASSERT_EQ(waitpid(holder, nullptr, 0), holder);
    EXPECT_EQ(code_of(card().open()), EBUSY);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_TRUE(until([] { return card().open().has_value(); })) << "the child's end closes the card";
    const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
    EXPECT_TRUE(is_ok(copy(memory, m_host.address(), kMiB)));
    EXPECT_EQ(Counters(card())["hard_resets"], 1u) << "the work was aborted";
}

#endif

} // namespace
