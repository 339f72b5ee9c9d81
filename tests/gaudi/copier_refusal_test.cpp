// SPDX-License-Identifier: BSD-3-Clause
// A driver that refuses one submission, or does not say what has ended, on a card that is well: the copies in question
// fail with the reason, the others go on, and nothing is unmapped that the card may still be at.
#include "engine.h"

#include <gmock/gmock.h>

#include "gaudi/mover.h"
#include "gaudi/settings.h"

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class CopierRefusal : public GaudiTest {
protected:
    static thunk::Status status() { return value(value(card().open()).status()); }
    static void expect_in_use(Engine &engine) {
        EXPECT_FALSE(engine.copier.failed()) << engine.copier.failure();
        EXPECT_FALSE(engine.copier.busy());
        EXPECT_EQ(status(), thunk::Status::operational);
        const unsigned failed = engine.failed;
        engine.down(0, 0, 4096);
        ASSERT_TRUE(engine.finish());
        EXPECT_EQ(engine.failed, failed);
    }
};

class RefusedSubmission : public CopierRefusal, public ::testing::WithParamInterface<const char *> {};

TEST_P(RefusedSubmission, fails_its_own_copies_only) {
    set("SOFTGAUDI_FAULTS", at_submission(35, GetParam()));
    Engine engine(card());
    constexpr std::uint64_t kCount = 200;
    const Bytes bytes = pattern(kCount * 4096, 1);
    engine.host.write(0, bytes);
    std::vector<bool> arrived;
    for (std::uint64_t i = 0; i < kCount; ++i) {
        const unsigned failed = engine.failed;
        engine.down(i * 4096, i * 4096, 4096);
        ASSERT_TRUE(engine.finish());
        arrived.push_back(engine.failed == failed);
    }
    EXPECT_EQ(engine.failed, 1u);
    EXPECT_EQ(engine.error, EIO);
    EXPECT_THAT(engine.copier.problem().text, HasSubstr(GetParam()));
    const Window window(*cards().find(engine.device));
    for (std::uint64_t i = 0; i < kCount; ++i)
        ASSERT_TRUE(!arrived[i] || window.read(engine.device + i * 4096, 4096) == engine.host.read(i * 4096, 4096))
            << i;
    expect_in_use(engine);
}

TEST_P(RefusedSubmission, fails_a_divided_copy_once_when_its_other_parts_have_ended) {
    set("SOFTGAUDI_FAULTS", at_submission(5, GetParam()));
    Engine engine(card(), 16 * kMiB, 512 * kMiB);
    engine.on_card(0, 256 * kMiB, 256 * kMiB);
    engine.on_card(0, 256 * kMiB, kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 2u);
    EXPECT_EQ(engine.failed, 1u);
    expect_in_use(engine);
}

INSTANTIATE_TEST_SUITE_P(, RefusedSubmission, ::testing::Values("EIO", "EBUSY", "EPERM", "EINVAL"),
                         [](const auto &action) { return std::string(action.param); });

TEST_F(CopierRefusal, flush_refused_fails_its_own_copies_only) {
    set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes#2=EIO");
    Engine engine(card());
    for (unsigned i = 0; i < 3; ++i) {
        engine.post(Direction::up, engine.device, engine.mapping.get(), 4096, true);
        ASSERT_TRUE(engine.finish());
        EXPECT_EQ(engine.failed, i == 0 ? 0u : 1u) << i;
    }
    EXPECT_THAT(engine.copier.problem().text, HasSubstr("cs_flush_pci_hbw_writes"));
    expect_in_use(engine);
}

TEST_F(CopierRefusal, refused_submission_is_made_again_for_a_blocking_copy) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "EIO") + ";" + at_submission(4, "EIO") + ";" + at_submission(5, "EIO"));
    Mover mover(cards());
    const HostMemory host(kMiB);
    const std::uint64_t memory = value(card().arena().allocate({.length = kMiB}));
    EXPECT_EQ(mover.copy_now(memory, host.address(), 1000), 0);
    EXPECT_EQ(mover.copy_now(memory, host.address(), 1000), 0) << "UCP ends the process when a short copy fails";
    EXPECT_EQ(mover.copy_now(memory, host.address(), 1000), EIO) << "but not for ever";
    EXPECT_THAT(mover.problem(), HasSubstr("hlthunk_command_submission"));
}

TEST_F(CopierRefusal, status_that_the_driver_cannot_tell_says_nothing_against_the_card) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "EIO") + ";get_device_status_info=ENOMEM");
    Engine engine(card());
    for (unsigned i = 0; i < 3; ++i) {
        engine.down(0, 0, 4096);
        ASSERT_TRUE(engine.finish());
    }
    EXPECT_EQ(engine.failed, 1u);
    EXPECT_FALSE(engine.copier.failed());
}

TEST_F(CopierRefusal, one_refused_submission_in_the_self_test_costs_nothing) {
    set("SOFTGAUDI_FAULTS", "command_submission#5=EIO");
    Engine engine(card());
    EXPECT_TRUE(engine.copier.uses_words());
    expect_in_use(engine);
}

// ---- the driver does not say what has ended

class UnansweredWait : public CopierRefusal, public ::testing::WithParamInterface<const char *> {
protected:
    UnansweredWait() { settings().completion_by_driver = true; }
};

TEST_P(UnansweredWait, is_repeated) {
    std::string faults;
    for (unsigned nth = 1; nth < 400; nth += 3)
        faults += (faults.empty() ? "wait_for_cs#" : ";wait_for_cs#") + std::to_string(nth) + "=" + GetParam();
    set("SOFTGAUDI_FAULTS", faults);
    Engine engine(card());
    for (std::uint64_t i = 0; i < 500; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.failed, 0u);
    expect_in_use(engine);
}

INSTANTIATE_TEST_SUITE_P(, UnansweredWait, ::testing::Values("EINTR", "EAGAIN", "ENOMEM"),
                         [](const auto &action) { return std::string(action.param); });

/// The driver never says what has ended, and a submission is still under way when it is given up.
class RunningOn : public CopierRefusal {
protected:
    static void hang_at(const std::string &submission) { set("SOFTGAUDI_FAULTS", "wait_for_cs=ENOMEM;" + submission); }
};

class RunningOnIn : public RunningOn, public ::testing::WithParamInterface<const char *> {};

TEST_P(RunningOnIn, host_memory_stays_mapped) {
    hang_at(at_submission(1, "hang"));
    const HostMemory host(64 * kMiB);
    Tally tally;
    const auto unmaps = [] { return Counters(card()).calls("memory_unmap"); };
    std::uint64_t before = 0;
    {
        Mover mover(cards());
        const std::uint64_t memory = value(card().arena().allocate({.length = host.size()}));
        const std::uint64_t bystander = value(card().arena().allocate({.length = host.size()}));
        HostRange range(host.address(), host.size(), cards().all().size());
        HostRange *known = GetParam() == std::string("registered") ? &range : nullptr;
        ASSERT_EQ(mover.post({memory, host.address(), host.size(), known, Tally::count, &tally}),
                  Mover::Posted::started);
        ASSERT_TRUE(until([&] {
            mover.progress();
            return tally.ended == 1;
        }));
        EXPECT_EQ(tally.failed, 1u);
        EXPECT_THAT(mover.new_problems(), testing::ElementsAre(HasSubstr("ENOMEM")));
        EXPECT_TRUE(mover.new_problems().empty());
        EXPECT_GT(value(card().copier())->abandoned(), 0u);
        before = unmaps();
        EXPECT_TRUE(card().arena().free(memory));
        EXPECT_TRUE(card().arena().free(bystander));
        EXPECT_EQ(value(card().arena().allocate({.length = host.size()})), bystander)
            << "what the submission may still write to is not used again, other memory is";
        EXPECT_EQ(card().arena().usage().abandoned, 1u);
    }
    EXPECT_EQ(unmaps(), before) << "memory was unmapped that the card may be at";
    EXPECT_GT(Pinned::get().kept(), 0u);
    EXPECT_EQ(status(), thunk::Status::operational);
}

INSTANTIATE_TEST_SUITE_P(, RunningOnIn, ::testing::Values("registered", "bounce"),
                         [](const auto &kind) { return std::string(kind.param); });

TEST_F(RunningOn, self_test_leaves_its_memory_mapped) {
    hang_at("command_submission#5=hang");
    const Copier &copier = *value(card().copier());
    EXPECT_TRUE(copier.failed());
    EXPECT_EQ(copier.abandoned(), 1u);
    EXPECT_THAT(copier.failure(), HasSubstr("ENOMEM"));
    EXPECT_EQ(value(card().copier()), &copier) << "it is not tried again";
    EXPECT_EQ(Pinned::get().kept(), 1u);
    EXPECT_EQ(status(), thunk::Status::operational);
}

TEST(BounceRingAbandoned, stretch_is_not_handed_out_again) {
    BounceRing ring;
    ASSERT_TRUE(ring.set_up(1));
    const unsigned running = *ring.take(1000);
    const unsigned other = *ring.take(1000);
    void *const memory = ring.memory(running);
    ring.abandon(running);
    EXPECT_NE(ring.memory(other), nullptr) << "it is still in use";
    ring.give_back(other);
    const auto next = ring.take(1000);
    ASSERT_TRUE(next);
    EXPECT_NE(ring.memory(*next), memory) << "the ring goes on in other memory";
    EXPECT_EQ(Pinned::get().kept(), 1u);
}

} // namespace
