// SPDX-License-Identifier: BSD-3-Clause
// Registered host memory stays mapped within limits: what was not used for the longest time leaves, and comes back.
#include "engine.h"

#include "gaudi/mover.h"
#include "gaudi/settings.h"

#include <atomic>
#include <deque>
#include <thread>

using namespace gaudi;
using namespace gaudi::test;

namespace {

constexpr std::uint64_t kLength = 2 * kMiB; // always worth a mapping

class PinnedTest : public GaudiTest {
protected:
    /// Registrations as a domain makes them, one behind the other.
    std::deque<HostRange> registered(std::size_t count) const {
        std::deque<HostRange> ranges;
        for (std::size_t i = 0; i < count; ++i)
            ranges.emplace_back(m_host.address(i * kLength), kLength, cards().all().size()).may_leave();
        return ranges;
    }
    void copy_down(Mover &mover, HostRange &range) {
        if (m_device == 0)
            m_device = value(card().arena().allocate({.length = kLength}));
        ASSERT_EQ(mover.post({m_device, range.address(), kLength, &range, Tally::count, &m_tally}),
                  Mover::Posted::started);
        ASSERT_TRUE(finish(mover));
    }
    static bool finish(Mover &mover) {
        return until([&] {
            mover.progress();
            return mover.outstanding() == 0;
        });
    }
    static std::uint64_t maps() { return Counters(card()).calls("host_memory_map"); }

    const HostMemory m_host{64 * kMiB};
    std::uint64_t m_device = 0;
    Tally m_tally;
};

TEST_F(PinnedTest, the_range_that_was_not_used_for_the_longest_time_leaves_first) {
    settings().max_pinned_mappings = 3;
    Mover mover(cards());
    auto ranges = registered(4);
    for (const std::size_t i : {0u, 1u, 2u})
        copy_down(mover, ranges[i]);
    copy_down(mover, ranges[0]); // 1 is the oldest now
    const std::uint64_t before = maps();
    copy_down(mover, ranges[3]);
    EXPECT_EQ(maps(), before + 1);
    for (const std::size_t i : {0u, 2u, 3u})
        copy_down(mover, ranges[i]);
    EXPECT_EQ(maps(), before + 1) << "they are still mapped";
    copy_down(mover, ranges[1]);
    EXPECT_EQ(maps(), before + 2) << "it had left, and is back";
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(PinnedTest, bytes_are_limited_as_well) {
    settings().max_pinned = 3 * kLength + 1;
    Mover mover(cards());
    auto ranges = registered(10);
    value(card().copier());
    const std::uint64_t before = Counters(card()).calls("memory_unmap");
    for (HostRange &range : ranges)
        copy_down(mover, range);
    EXPECT_EQ(Counters(card()).calls("memory_unmap") - before, ranges.size() - 3);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(PinnedTest, what_is_longer_than_the_limit_is_staged) {
    settings().max_pinned = kLength - 1;
    Mover mover(cards());
    auto ranges = registered(1);
    const Bytes sent = pattern(kLength, 5);
    m_host.write(0, sent);
    value(card().copier());
    const std::uint64_t before = maps();
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before + 1) << "the ring, and not the range";
    EXPECT_TRUE(Window(*cards().find(m_device)).read(m_device, kLength) == sent);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(PinnedTest, a_range_leaves_all_cards_at_once) {
    settings().max_pinned_mappings = 2;
    Mover mover(cards());
    auto ranges = registered(2);
    const std::uint64_t other = value(card(1).arena().allocate({.length = kLength}));
    copy_down(mover, ranges[0]);
    ASSERT_EQ(mover.post({other, ranges[0].address(), kLength, &ranges[0], Tally::count, &m_tally}),
              Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    const std::uint64_t unmapped = Counters(card(1)).calls("memory_unmap");
    copy_down(mover, ranges[1]);
    EXPECT_EQ(Counters(card(1)).calls("memory_unmap"), unmapped + 1);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(PinnedTest, what_is_in_use_stays) {
    settings().max_pinned_mappings = 1;
    Mover mover(cards());
    auto ranges = registered(2);
    copy_down(mover, ranges[0]);
    ranges[0].hold();
    copy_down(mover, ranges[1]);
    const std::uint64_t before = maps();
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before) << "the other one was staged";
    ranges[0].release();
    copy_down(mover, ranges[1]);
    EXPECT_EQ(maps(), before + 1);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(PinnedTest, a_driver_that_is_short_of_memory_gets_some_back) {
    // The ring, two of the trial, one range; the next one is refused once.
    set("SOFTGAUDI_FAULTS", "host_memory_map#5=ENOMEM");
    Mover mover(cards());
    auto ranges = registered(2);
    copy_down(mover, ranges[0]);
    const std::uint64_t before = Counters(card()).calls("memory_unmap");
    copy_down(mover, ranges[1]);
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), before + 1);
    EXPECT_EQ(maps(), 6u) << "tried again";
    copy_down(mover, ranges[1]);
    EXPECT_EQ(maps(), 6u);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(PinnedTest, a_registration_that_ends_gives_its_room_back) {
    settings().max_pinned_mappings = 2;
    Mover mover(cards());
    auto ranges = registered(3);
    copy_down(mover, ranges[1]);
    copy_down(mover, ranges[0]);
    ranges.pop_front();
    const std::uint64_t before = maps();
    copy_down(mover, ranges[1]);
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before + 1) << "the older one did not have to leave";
}

TEST_F(PinnedTest, threads_that_drive_each_other_out_lose_nothing) {
    settings().max_pinned_mappings = 3;
    constexpr unsigned kThreads = 4, kTimes = 100;
    auto ranges = registered(2 * kThreads);
    std::vector<std::uint64_t> places;
    for (unsigned i = 0; i < kThreads; ++i)
        places.push_back(value(card().arena().allocate({.length = kLength})));
    std::vector<Bytes> sent;
    for (unsigned i = 0; i < 2 * kThreads; ++i) {
        sent.push_back(pattern(kLength, 100 + i));
        m_host.write(i * kLength, sent.back());
    }
    const Window window(*cards().find(places[0]));
    std::atomic<unsigned> failed{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            Mover mover(cards());
            Tally tally;
            for (unsigned time = 0; time < kTimes; ++time) {
                // Each has one range of its own and shares the others.
                const std::size_t which = time % 2 == 0 ? i : kThreads + time / 2 % kThreads;
                HostRange &range = ranges[which];
                if (mover.post({places[i], range.address(), kLength, &range, Tally::count, &tally}) !=
                        Mover::Posted::started ||
                    !finish(mover) || window.read(places[i], kLength) != sent[which])
                    ++failed;
            }
            failed += tally.failed;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failed, 0u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u) << "no memory was unmapped under a copy";
}

} // namespace
