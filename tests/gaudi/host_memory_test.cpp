// SPDX-License-Identifier: BSD-3-Clause
// Host memory stays mapped within the limit: the range that no copy used for the longest time is unmapped first, and
// the next copy maps it again.
#include "engine_user.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"
#include "gaudi/host/host_cache.h"
#include "gaudi/host/host_memory.h"

#include <atomic>
#include <deque>
#include <thread>

using namespace gaudi;
using namespace gaudi::test;

namespace {

constexpr std::uint64_t kLength = 2 * kMiB; // always worth a mapping

class HostMemoryTest : public GaudiTest {
protected:
    /// Ranges one behind the other, as a memory domain registers them.
    std::deque<HostRange> make_ranges(std::size_t count) const {
        std::deque<HostRange> ranges;
        for (std::size_t i = 0; i < count; ++i)
            ranges.emplace_back(m_host.address(i * kLength), kLength, cards().all().size(),
                                HostRange::Residency::evictable);
        return ranges;
    }
    void copy_down(Mover &mover, HostRange &range) {
        if (m_device == 0)
            m_device = value(allocate(card(), {.length = kLength}));
        ASSERT_EQ(mover.post({m_device, range.address(), kLength, &range, Tally::count, &m_tally}),
                  Mover::Posted::started);
        ASSERT_TRUE(finish(mover));
    }
    static void set_limit(std::uint64_t bytes) {
        change_settings([&](Settings &settings) { settings.max_mapped_host.value = bytes; });
    }
    static std::uint64_t maps() { return Counters(card()).calls("host_memory_map"); }

    const HostBuffer m_host{64 * kMiB};
    std::uint64_t m_device = 0;
    Tally m_tally;
};

TEST_F(HostMemoryTest, least_recently_used_range_is_unmapped_first) {
    set_limit(3 * kLength);
    Mover mover(cards());
    auto ranges = make_ranges(4);
    for (const std::size_t i : {0u, 1u, 2u})
        copy_down(mover, ranges[i]);
    copy_down(mover, ranges[0]); // range 1 is the oldest now
    const std::uint64_t before = maps();
    copy_down(mover, ranges[3]);
    EXPECT_EQ(maps(), before + 1);
    for (const std::size_t i : {0u, 2u, 3u})
        copy_down(mover, ranges[i]);
    EXPECT_EQ(maps(), before + 1) << "these ranges are still mapped";
    copy_down(mover, ranges[1]);
    EXPECT_EQ(maps(), before + 2) << "the oldest range was unmapped, and is mapped again";
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(HostMemoryTest, mapped_bytes_stay_within_the_limit) {
    set_limit(3 * kLength + 1);
    Mover mover(cards());
    auto ranges = make_ranges(10);
    value(start_engine(card()));
    const std::uint64_t before = Counters(card()).calls("memory_unmap");
    for (HostRange &range : ranges)
        copy_down(mover, range);
    EXPECT_EQ(Counters(card()).calls("memory_unmap") - before, ranges.size() - 3);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(HostMemoryTest, range_longer_than_the_limit_is_staged) {
    set_limit(kLength - 1);
    Mover mover(cards());
    auto ranges = make_ranges(1);
    const Bytes sent = pattern(kLength, 5);
    m_host.write(0, sent);
    value(start_engine(card()));
    const std::uint64_t before = maps();
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before + 1) << "the bounce ring, and not the range";
    EXPECT_TRUE(Window(*find_region(m_device)).read(m_device, kLength) == sent);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(HostMemoryTest, mappings_on_all_cards_share_the_limit) {
    set_limit(2 * kLength);
    Mover mover(cards());
    auto ranges = make_ranges(2);
    const std::uint64_t other = value(allocate(card(1), {.length = kLength}));
    const auto copy_to_other = [&](HostRange &range) {
        ASSERT_EQ(mover.post({other, range.address(), kLength, &range, Tally::count, &m_tally}),
                  Mover::Posted::started);
        ASSERT_TRUE(finish(mover));
    };
    copy_to_other(ranges[0]);
    copy_down(mover, ranges[0]);
    const std::uint64_t unmapped = Counters(card(1)).calls("memory_unmap");
    copy_down(mover, ranges[1]);
    EXPECT_EQ(Counters(card(1)).calls("memory_unmap"), unmapped + 1) << "the oldest mapping of the range";
    const std::uint64_t before = maps();
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before) << "its other mapping was not in the way";
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 2 * kLength);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(HostMemoryTest, range_in_use_stays_mapped) {
    set_limit(kLength);
    Mover mover(cards());
    auto ranges = make_ranges(2);
    copy_down(mover, ranges[0]);
    ranges[0].hold();
    copy_down(mover, ranges[1]);
    const std::uint64_t before = maps();
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before) << "the other range was staged";
    ranges[0].release();
    copy_down(mover, ranges[1]);
    EXPECT_EQ(maps(), before + 1);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(HostMemoryTest, mapping_refused_with_enomem_unmaps_another_range) {
    // The command ring, two mappings of the self-test, one range; the next range is refused once.
    set("SOFTGAUDI_FAULTS", "host_memory_map#5=ENOMEM");
    Mover mover(cards());
    auto ranges = make_ranges(2);
    copy_down(mover, ranges[0]);
    const std::uint64_t before = Counters(card()).calls("memory_unmap");
    copy_down(mover, ranges[1]);
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), before + 1);
    EXPECT_EQ(maps(), 6u) << "tried again";
    copy_down(mover, ranges[1]);
    EXPECT_EQ(maps(), 6u);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(HostMemoryTest, range_that_ends_makes_room) {
    set_limit(2 * kLength);
    Mover mover(cards());
    auto ranges = make_ranges(3);
    copy_down(mover, ranges[1]);
    copy_down(mover, ranges[0]);
    ranges.pop_front();
    const std::uint64_t before = maps();
    copy_down(mover, ranges[1]);
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before + 1) << "the older range stays mapped";
}

TEST_F(HostMemoryTest, registered_and_unregistered_memory_share_the_limit) {
    set_limit(2 * kLength);
    HostCache::get().enable();
    Mover mover(cards());
    auto ranges = make_ranges(1);
    const HostBuffer unregistered(4 * kMiB);
    copy_down(mover, ranges[0]);
    for (const std::uint64_t offset : {std::uint64_t{0}, kLength})
        ASSERT_TRUE(is_ok(run_copy(mover, m_device, unregistered.address(offset), kLength)));
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 2 * kLength);
    const std::uint64_t before = maps();
    ASSERT_TRUE(is_ok(run_copy(mover, m_device, unregistered.address(kLength), kLength)));
    EXPECT_EQ(maps(), before);
    copy_down(mover, ranges[0]);
    EXPECT_EQ(maps(), before + 1) << "the registered range was unmapped for the unregistered memory";
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 2 * kLength);
}

TEST_F(HostMemoryTest, threads_that_evict_each_other_copy_right) {
    set_limit(3 * kLength);
    constexpr unsigned kThreads = 4, kTimes = 100;
    auto ranges = make_ranges(2 * kThreads);
    std::vector<std::uint64_t> places;
    for (unsigned i = 0; i < kThreads; ++i)
        places.push_back(value(allocate(card(), {.length = kLength})));
    std::vector<Bytes> sent;
    for (unsigned i = 0; i < 2 * kThreads; ++i) {
        sent.push_back(pattern(kLength, 100 + i));
        m_host.write(i * kLength, sent.back());
    }
    const Window window(*find_region(places[0]));
    std::atomic<unsigned> failed{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            Mover mover(cards());
            for (unsigned time = 0; time < kTimes; ++time) {
                // Each thread has one range of its own and shares the others.
                const std::size_t which = time % 2 == 0 ? i : kThreads + time / 2 % kThreads;
                HostRange &range = ranges[which];
                if (!run_copy(mover, places[i], range.address(), kLength, &range) ||
                    window.read(places[i], kLength) != sent[which])
                    ++failed;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failed, 0u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u) << "no memory was unmapped under a copy";
}

} // namespace
