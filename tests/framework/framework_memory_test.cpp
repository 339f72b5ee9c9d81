// SPDX-License-Identifier: BSD-3-Clause
// Allocation on a card that SynapseAI holds: the driver has no memory left there, so SynapseAI's own allocator is used.
#include "synapse_fixture.h"

#include "gaudi/copy/mover.h"
#include "gaudi/engine_user.h"
#include "thunk/reported.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

class FrameworkMemoryTest : public SynapseTest {
protected:
    static bool free(std::uint64_t address) { return free_allocation(*look_up(address), address); }
};

TEST_F(FrameworkMemoryTest, allocation_comes_from_the_pool_and_goes_back) {
    const Synapse &framework = acquire();
    const auto pool = framework.pools(framework.descriptor()).at(0);
    const std::uint64_t largest = pool.size / 4 * 3;
    for (int i = 0; i < 3; ++i) { // each would exhaust the pool if the one before were not freed
        const std::uint64_t memory = value(gaudi::allocate(card(), {.length = largest}));
        EXPECT_GE(memory, pool.begin);
        EXPECT_LE(memory + largest, pool.begin + pool.size);
        Region *region = look_up(memory);
        ASSERT_NE(region, nullptr);
        EXPECT_TRUE(region->contains(memory, largest));
        EXPECT_TRUE(free(memory));
        EXPECT_FALSE(free(memory)) << "freed twice";
    }
    EXPECT_EQ(Counters(card()).calls("device_memory_alloc"), 1u) << "SCAL's";
}

TEST_F(FrameworkMemoryTest, allocation_is_copied) {
    acquire();
    const std::uint64_t memory = value(gaudi::allocate(card(), {.length = 2 * kMiB}));
    const HostBuffer host(4 * kMiB);
    const Bytes sent = pattern(2 * kMiB, 4);
    host.write(0, sent);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(memory, host.address(), 2 * kMiB)));
    ASSERT_TRUE(is_ok(mover.copy_now(host.address(2 * kMiB), memory, 2 * kMiB)));
    EXPECT_TRUE(host.read(2 * kMiB, 2 * kMiB) == sent);
    EXPECT_TRUE(free(memory));
}

TEST_F(FrameworkMemoryTest, alignment_and_limit_hold) {
    acquire();
    allocate(128); // the next address has the framework's own alignment only
    const std::uint64_t memory = value(gaudi::allocate(card(), {.length = kMiB, .alignment = kMiB}));
    EXPECT_EQ(memory % kMiB, 0u);
    const auto exceeding = gaudi::allocate(card(), {.length = kMiB, .limit = 2 * kMiB - 1});
    EXPECT_EQ(code_of(exceeding), ENOMEM);
    EXPECT_THAT(text_of(exceeding), HasSubstr("UCX may hold 1 MiB"));
    EXPECT_TRUE(free(memory));
    const std::uint64_t again = value(gaudi::allocate(card(), {.length = kMiB, .limit = 2 * kMiB - 1}));
    EXPECT_TRUE(free(again));
    const auto fixed = gaudi::allocate(card(), {.length = kMiB, .fixed = memory});
    EXPECT_EQ(code_of(fixed), ENOTSUP);
    EXPECT_THAT(text_of(fixed), HasSubstr("chooses addresses itself"));
}

TEST_F(FrameworkMemoryTest, limit_is_exact_for_threads) {
    acquire();
    value(gaudi::allocate(card(), {.length = kKiB})); // adopts the card
    constexpr unsigned kThreads = 8, kRounds = 100;
    constexpr std::uint64_t kLimit = 3 * kMiB + kKiB;
    for (unsigned round = 0; round < kRounds; ++round) {
        std::vector<std::uint64_t> allocated(kThreads);
        std::atomic<unsigned> ready{0};
        std::vector<std::thread> threads;
        for (std::uint64_t &address : allocated)
            threads.emplace_back([&] {
                ++ready;
                while (ready != kThreads)
                    std::this_thread::yield();
                if (const auto got = gaudi::allocate(card(), {.length = kMiB, .limit = kLimit}))
                    address = *got;
            });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(kThreads - std::count(allocated.begin(), allocated.end(), 0u), 3u) << "in round " << round;
        for (const std::uint64_t address : allocated)
            EXPECT_TRUE(address == 0 || free(address));
    }
}

TEST_F(FrameworkMemoryTest, exhausted_pool_is_named) {
    const Synapse &framework = acquire();
    const auto pool = framework.pools(framework.descriptor()).at(0);
    allocate(pool.size - kMiB);
    const auto refused = gaudi::allocate(card(), {.length = 2 * kMiB});
    EXPECT_EQ(code_of(refused), ENOMEM);
    EXPECT_THAT(text_of(refused), HasSubstr("SynapseAI, which holds all memory of the card, gives none of it"));
    EXPECT_THAT(text_of(refused), HasSubstr("synOutOfDeviceMemory"));
    EXPECT_FALSE(gaudi::allocate(card(), {.length = 2 * kMiB, .tentative = true}));
    EXPECT_EQ(value_of(value(card().open())->counters().failed_allocations), 1u) << "not the tentative one";
}

TEST_F(FrameworkMemoryTest, ends_when_the_framework_closes_the_card) {
    acquire();
    const std::uint64_t memory = value(gaudi::allocate(card(), {.length = kMiB}));
    Region *region = look_up(memory);
    Session &session = region->session();
    const int fd = Synapse::loaded()->descriptor();
    card().before_close(fd);
    release();
    card().after_close(fd);
    EXPECT_FALSE(session.usable());
    const thunk::Reported reported;
    EXPECT_FALSE(free_allocation(*region, memory));
    EXPECT_THAT(thunk::Reported::errors(), IsEmpty());
    acquire();
    const std::uint64_t next = value(gaudi::allocate(card(), {.length = kMiB}));
    EXPECT_TRUE(free(next));
}

TEST_F(FrameworkMemoryTest, gaudi3_allocates_from_the_pool_too) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    const Synapse &framework = acquire();
    const auto pool = framework.pools(framework.descriptor()).at(0);
    const std::uint64_t memory = value(gaudi::allocate(card(), {.length = kMiB}));
    EXPECT_GE(memory, pool.begin);
    EXPECT_TRUE(free(memory));
}

/// A program that is not SynapseAI holds the memory.
TEST_F(FrameworkMemoryTest, without_framework_allocator_the_reason_is_given) {
    const auto &call = cards().library().call();
    const int fd = call.open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str());
    ASSERT_GE(fd, 0);
    const std::uint64_t all = card().info().dram_size / kPage * kPage;
    ASSERT_NE(call.device_memory_alloc(fd, all, 0, false, false), 0u);
    const auto refused = gaudi::allocate(card(), {.length = kMiB});
    EXPECT_EQ(code_of(refused), ENOMEM);
    EXPECT_THAT(text_of(refused), HasSubstr("card 0 is shared with a framework that holds its memory"));
    EXPECT_THAT(text_of(refused), HasSubstr("no synDeviceMalloc"));
    const auto limited = gaudi::allocate(card(), {.length = kMiB, .limit = kKiB});
    EXPECT_THAT(text_of(limited), HasSubstr("UCX may hold 0 MiB")) << "the user's limit is another reason";
    call.close(fd);
}

} // namespace
