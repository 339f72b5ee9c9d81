// SPDX-License-Identifier: BSD-3-Clause
// A forked child: what its parent had opened is the parent's, and whatever else there is the child may have.
#include "engine.h"

#include "gaudi/host_cache.h"
#include "gaudi/mover.h"

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class Fork : public GaudiTest {
protected:
    /// Runs it in a child, where its expectations hold too.
    static void in_child(const std::function<void()> &what) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60); // rather than hang
            what();
            _exit(HasFailure() ? 1 : 0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    static int copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
        return Mover(cards()).copy_now(destination, source, length);
    }
    const HostMemory m_host{kMiB};
};

TEST_F(Fork, leaves_the_parents_card_to_the_parent) {
    const std::uint64_t memory = value(card().arena().allocate({.length = kMiB}));
    ASSERT_EQ(copy(memory, m_host.address(), kMiB), 0);
    const std::uint64_t submissions = Counters(card())["submissions"];
    in_child([&] {
        const auto refused = card().arena().allocate({.length = kMiB});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ENODEV);
        EXPECT_THAT(refused.error().text, HasSubstr("is its parent's"));
        EXPECT_FALSE(card().open());
        EXPECT_FALSE(card().if_held());
        EXPECT_FALSE(card().copier());
        EXPECT_NE(copy(memory, m_host.address(), kMiB), 0);
        EXPECT_TRUE(card().arena().free(memory)) << "a copy of it";
    });
    EXPECT_EQ(Counters(card())["submissions"], submissions);
    EXPECT_EQ(copy(memory, m_host.address(), kMiB), 0) << "it is there still";
    EXPECT_TRUE(card().arena().free(memory));
}

TEST_F(Fork, leaves_the_parents_host_memory_mapped) {
    HostCache::get().enable();
    value(card().open());
    const auto find = [&] { return HostCache::get().find(m_host.address(), kMiB, cards().all().size()); };
    const HostRange *kept = find().get();
    ASSERT_TRUE(find()->on(card(), m_host.address()));
    const std::uint64_t calls = Counters(card()).calls();
    in_child([&] {
        HostCache::forget(m_host.address(), kMiB); // as when it is unmapped
        EXPECT_TRUE(HostCache::get().enabled());
        EXPECT_NE(find().get(), kept);
    });
    EXPECT_EQ(find().get(), kept);
    EXPECT_TRUE(find()->on(card(), m_host.address()));
    EXPECT_EQ(Counters(card()).calls(), calls) << "mapped as it was";
}

TEST_F(Fork, leaves_the_parents_registrations_alone) {
    const std::uint64_t memory = value(card().arena().allocate({.length = kMiB}));
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
    in_child([&] { range.reset(); });
    EXPECT_EQ(Counters(card()).calls(), calls);
    EXPECT_TRUE(copy_registered());
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
}

TEST_F(Fork, in_the_middle_of_copies_lets_the_child_end) {
    set("SOFTGAUDI_PACE", "down:0.1"); // 16 MiB take 0.17 s
    const HostMemory host(16 * kMiB);
    const std::uint64_t memory = value(card().arena().allocate({.length = host.size()}));
    HostRange range(host.address(), host.size(), cards().all().size());
    auto mover = std::make_unique<Mover>(cards());
    Tally tally;
    ASSERT_EQ(mover->post({memory, host.address(), host.size(), &range, Tally::count, &tally}), Mover::Posted::started);
    in_child([&] {
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

TEST_F(Fork, leaves_the_other_cards_to_the_child) {
    value(card(0).open()); // and no thread is started: that is as much as a thread sanitizer can live with
    in_child([&] {
        EXPECT_EQ(value(cards().usual()), &card(1));
        const std::uint64_t own = value(card(1).arena().allocate({.length = kMiB}));
        EXPECT_EQ(copy(own, m_host.address(), kMiB), 0);
        EXPECT_EQ(copy(m_host.address(), own, kMiB), 0);
        EXPECT_TRUE(card(1).arena().free(own));
        EXPECT_FALSE(card(0).open());
    });
    EXPECT_FALSE(Counters(card(1)).in_use()) << "it went with the child";
    EXPECT_TRUE(card(0).open());
}

} // namespace
