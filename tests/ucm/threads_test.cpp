// SPDX-License-Identifier: BSD-3-Clause
// The hooks while many threads allocate, copy and register at full speed.
#include "hooked_calls_fixture.h"

#include "gaudi/copy/mover.h"

#include <atomic>
#include <thread>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;

namespace {

using HookedThreads = HookedCallsTest;

TEST_F(HookedThreads, map_and_unmap_are_tracked_exactly) {
    constexpr unsigned kThreads = 8, kTimes = 200;
    const int fd = open();
    std::atomic<unsigned> wrong{0};
    std::atomic<bool> over{false};
    // UCX looks addresses up all the time.
    std::thread detection([&] {
        const std::uint64_t base = card().info().dram_base_address;
        for (unsigned i = 0; !over; ++i)
            if (Region *region = look_up(base + i % 16 * kPage))
                (void)region->allocation(base);
    });
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            for (unsigned time = 0; time < kTimes; ++time) {
                const std::uint64_t handle = m_calls.alloc(fd, kMiB + time, 0, false, false);
                const std::uint64_t address = m_calls.map(fd, handle, 0);
                const Region *region = address ? find_region(address) : nullptr;
                if (!region || region->base() != address || region->size() != kMiB + time)
                    ++wrong;
                if (m_calls.unmap(fd, address) != 0 || m_calls.free(fd, handle) != 0)
                    ++wrong;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    over = true;
    detection.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(m_listener.mapped_count(), kThreads * kTimes);
    EXPECT_GE(m_listener.unmapped_count(), kThreads * kTimes) << "a probed mapping may be notified of twice";
    EXPECT_TRUE(m_listener.ranges().empty());
    EXPECT_EQ(m_calls.close(fd), 0);
}

TEST_F(HookedThreads, copies_and_exports_survive_close_and_reopen) {
    constexpr unsigned kSessions = 5;
    std::atomic<std::uint64_t> memory{0};
    std::atomic<unsigned> copies{0};
    std::atomic<bool> over{false};
    const HostBuffer host(4 * kMiB);
    std::vector<std::thread> threads;
    threads.emplace_back([&] { // copies to memory that may have been closed a moment ago
        Mover mover(cards());
        while (!over)
            if (const std::uint64_t at = memory; at != 0 && mover.copy_now(at, host.address(), 100'000))
                ++copies;
            else
                std::this_thread::yield();
    });
    threads.emplace_back([&] { // registers, copies once, deregisters
        Mover mover(cards());
        while (!over)
            if (const std::uint64_t at = memory) {
                HostRange range(host.address(), host.size(), cards().all().size(), HostRange::Residency::evictable);
                Tally tally;
                if (mover.post({host.address(), at, kMiB, &range, Tally::count, &tally}) == Mover::Posted::started)
                    until([&] {
                        mover.progress();
                        return mover.outstanding() == 0;
                    });
            }
    });
    threads.emplace_back([&] { // exports, as a registration with an HCA does
        while (!over)
            if (Region *region = look_up(memory))
                (void)region->dmabuf();
    });
    for (unsigned session = 0; session < kSessions; ++session) {
        int fd = -1;
        // An export under way keeps the card busy for a moment.
        EXPECT_TRUE(until([&] { return (fd = open()) >= 0; })) << session;
        memory = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
        EXPECT_NE(memory, 0u);
        const unsigned before = copies;
        EXPECT_TRUE(until([&] { return copies != before; })) << "no copy in session " << session;
        EXPECT_EQ(m_calls.close(fd), 0);
    }
    over = true;
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
    // The card still opens and copies.
    int fd = -1;
    ASSERT_TRUE(until([&] { return (fd = open()) >= 0; }));
    const std::uint64_t last = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(last, host.address(), kMiB)));
    EXPECT_EQ(m_calls.close(fd), 0);
}

TEST_F(HookedThreads, registrations_leave_no_deferred_unmap) {
    constexpr unsigned kThreads = 4, kTimes = 400;
    const int fd = open();
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            for (unsigned time = 0; time < kTimes; ++time) {
                const std::uint64_t handle = m_calls.alloc(fd, kMiB, 0, false, false);
                const std::uint64_t address = m_calls.map(fd, handle, 0);
                thunk::Fd registered;
                if (Region *region = find_region(address))
                    if (auto exported = region->dmabuf())
                        registered = std::move(*exported);
                const int unmapped = m_calls.unmap(fd, address), freed = m_calls.free(fd, handle);
                if (unmapped != 0 || freed != 0)
                    ++wrong;
                EXPECT_EQ(unmapped, 0) << handle << " at " << address << ", exported: " << bool(registered);
                EXPECT_EQ(freed, 0) << handle << " at " << address << ", exported: " << bool(registered);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_TRUE(until([&] { // tries get rarer
        EXPECT_EQ(m_calls.free(fd, m_calls.alloc(fd, kMiB, 0, false, false)), 0);
        return deferred_unmaps() == 0;
    }));
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

} // namespace
