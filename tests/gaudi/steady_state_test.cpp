// SPDX-License-Identifier: BSD-3-Clause
// The calls and allocations of a program that has copied for a while: counted, so that the machine does not matter.
#include "allocations.h"
#include "engine_user.h"

#include "gaudi/copy/mover.h"
#include "gaudi/host/host_cache.h"

namespace {

using namespace gaudi;
using namespace gaudi::test;

class SteadyState : public GaudiTest {
protected:
    void copy_and_wait(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range) {
        ASSERT_EQ(m_mover->post({destination, source, length, range, Tally::count, &m_tally}), Mover::Posted::started);
        ASSERT_TRUE(finish(*m_mover));
    }
    std::optional<Mover> m_mover;
    Tally m_tally;
};

TEST_F(SteadyState, copy_of_registered_memory_is_one_submission) {
    const HostBuffer host(4 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    m_mover.emplace(cards());
    const std::uint64_t memory = value(allocate(card(), {.length = 4 * kMiB}));
    for (const std::uint64_t length : {std::uint64_t{8}, std::uint64_t{4096}, kMiB}) {
        for (unsigned i = 0; i < 100; ++i)
            copy_and_wait(memory, host.address(), length, &range);
        const Counters before(card());
        const std::uint64_t allocated = allocations();
        ASSERT_GT(allocated, 0u) << "allocations are counted";
        for (unsigned i = 0; i < 100; ++i)
            copy_and_wait(memory, host.address(), length, &range);
        EXPECT_EQ(allocations() - allocated, 0u) << length;
        const Counters after(card());
        EXPECT_EQ(after.calls("command_submission") - before.calls("command_submission"), 100u) << length;
        EXPECT_EQ(after.calls() - before.calls(), 100u) << "and no other call of the driver, " << length;
    }
}

TEST_F(SteadyState, allocation_and_free_call_no_driver) {
    const std::uint64_t first = value(allocate(card(), {.length = kMiB})); // takes the block
    const Counters before(card());
    for (unsigned i = 0; i < 1000; ++i)
        EXPECT_TRUE(free_on(card(), value(allocate(card(), {.length = kMiB}))));
    EXPECT_EQ(Counters(card()).calls() - before.calls(), 0u);
    EXPECT_TRUE(free_on(card(), first));
}

} // namespace
