// SPDX-License-Identifier: BSD-3-Clause
// A submission that exceeds the driver's timeout: its queue may still fetch packets and write when the driver says so. Its
// memory is kept and counted, not unmapped and not used again.
#include "engine_user.h"

#include "gaudi/card/settings.h"
#include "gaudi/host/host_memory.h"

#include <gmock/gmock.h>

#include <tuple>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class StuckSubmissionTest : public GaudiTest {
protected:
    static std::uint64_t unmaps(std::size_t index = 0) { return Counters(card(index)).calls("memory_unmap"); }
    static std::uint64_t device(std::size_t index = 0) { return value(allocate(card(index), {.length = kMiB})); }
    static void complete_by_driver() {
        change_settings([](Settings &settings) { settings.completion = CompletionMode::driver; });
    }
};

enum class Memory { registered, bounced, staged };

class StuckSubmission : public StuckSubmissionTest,
                        public ::testing::WithParamInterface<std::tuple<Memory, const char *>> {
protected:
    static Memory memory() { return std::get<0>(GetParam()); }
    static std::uint64_t length() { return memory() == Memory::bounced ? 1000 : 900 * kKiB; }
};

std::string name_of(const std::tuple<Memory, const char *> &parameters) {
    const Memory memory = std::get<0>(parameters);
    const std::string name = memory == Memory::registered ? "registered"
                             : memory == Memory::bounced  ? "bounced"
                                                          : "staged";
    return name + "_by_" + std::get<1>(parameters);
}

TEST_P(StuckSubmission, its_memory_is_kept_and_counted) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "hang:100"));
    if (std::get<1>(GetParam()) == std::string("driver"))
        complete_by_driver();
    const HostBuffer host(kMiB);
    std::uint64_t before = 0;
    {
        Mover mover(cards());
        const std::uint64_t stuck = device(), bystander = device();
        HostRange range(host.address(), host.size(), cards().all().size());
        const auto failed =
            run_copy(mover, host.address(), stuck, length(), memory() == Memory::registered ? &range : nullptr);
        EXPECT_EQ(code_of(failed), EIO);
        EXPECT_THAT(text_of(failed), HasSubstr("ETIMEDOUT"));
        EXPECT_GE(started_engine(card())->abandoned(), 1u);
        before = unmaps();
        EXPECT_TRUE(free_on(card(), stuck));
        EXPECT_TRUE(free_on(card(), bystander));
        EXPECT_EQ(usage_of(card()).abandoned, 1u) << "the allocation that the queue may still read";
        EXPECT_GE(usage_of(card()).used_bytes, kMiB) << "it is not used again";
    }
    EXPECT_EQ(unmaps(), before) << "memory was unmapped that the card may still access";
    EXPECT_GT(HostMemory::get().kept(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, StuckSubmission,
                         ::testing::Combine(::testing::Values(Memory::registered, Memory::bounced, Memory::staged),
                                            ::testing::Values("flag", "driver")),
                         [](const auto &test) { return name_of(test.param); });

TEST_F(StuckSubmissionTest, other_cards_do_not_get_its_staging_memory) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "hang:100", "", "@0"));
    complete_by_driver();
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t stuck = device(0), other = device(1);
    ASSERT_EQ(code_of(run_copy(mover, host.address(), stuck, 1000)), EIO);
    const std::size_t kept = HostMemory::get().kept();
    EXPECT_GT(kept, 0u) << "the ring, into which the stuck copy may still write";
    for (unsigned round = 0; round < 100; ++round) {
        const Bytes sent = pattern(5000, round);
        host.write(0, sent);
        ASSERT_TRUE(is_ok(run_copy(mover, other, host.address(), sent.size())));
        ASSERT_TRUE(is_ok(run_copy(mover, host.address(kMiB / 2), other, sent.size())));
        ASSERT_TRUE(host.read(kMiB / 2, sent.size()) == sent);
    }
    EXPECT_EQ(HostMemory::get().kept(), kept) << "the new ring is no stuck copy's";
}

TEST_F(StuckSubmissionTest, command_ring_stays_mapped_when_the_session_ends) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "hang:100"));
    complete_by_driver();
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const auto engine = value(start_engine(card()));
    ASSERT_EQ(code_of(run_copy(mover, host.address(), device(), 1000)), EIO);
    const std::uint64_t before = unmaps();
    engine->stop(Error{EIO, "test", "the session ends"});
    engine->release();
    EXPECT_EQ(unmaps(), before);
}

TEST_F(StuckSubmissionTest, aborted_submissions_of_a_reset_keep_nothing) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "reset"));
    set("SOFTGAUDI_PACE", "up:0.1");
    complete_by_driver();
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = device();
    EXPECT_EQ(code_of(run_copy(mover, host.address(), memory, 900 * kKiB)), EIO);
    EXPECT_EQ(HostMemory::get().kept(), 0u) << "the driver says that it has ended them";
    EXPECT_EQ(usage_of(card()).abandoned, 0u);
}

} // namespace
