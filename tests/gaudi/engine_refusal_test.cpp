// SPDX-License-Identifier: BSD-3-Clause
// A driver that refuses one submission, or does not say what has ended, on a card that is well: the copies of that
// submission fail with the reason, the others go on, and no memory is unmapped that the card may still access.
#include "engine_user.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"

#include <gmock/gmock.h>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class EngineRefusalTest : public GaudiTest {
protected:
    static thunk::Status status() { return value(value(card().open())->device().status()); }
    static void expect_in_use(EngineUser &engine) {
        EXPECT_FALSE(engine.engine.failed()) << engine.engine.failure()->text;
        EXPECT_FALSE(engine.engine.busy());
        EXPECT_EQ(status(), thunk::Status::operational);
        const unsigned failed = engine.failed;
        engine.down(0, 0, 4096);
        ASSERT_TRUE(engine.finish());
        EXPECT_EQ(engine.failed, failed);
    }
};

using OneRefusedSubmission = EngineRefusalTest;
using RefusedFlush = EngineRefusalTest;

class RefusedSubmission : public EngineRefusalTest, public ::testing::WithParamInterface<const char *> {};

TEST_P(RefusedSubmission, fails_its_own_copies_only) {
    set("SOFTGAUDI_FAULTS", at_submission(35, GetParam()));
    EngineUser engine(card());
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
    EXPECT_THAT(engine.problem, HasSubstr(GetParam()));
    const Window window(*find_region(engine.device));
    for (std::uint64_t i = 0; i < kCount; ++i)
        ASSERT_TRUE(!arrived[i] || window.read(engine.device + i * 4096, 4096) == engine.host.read(i * 4096, 4096))
            << i;
    expect_in_use(engine);
}

TEST_P(RefusedSubmission, fails_a_divided_copy_once_when_its_other_parts_have_ended) {
    set("SOFTGAUDI_FAULTS", at_submission(5, GetParam()));
    EngineUser engine(card(), 16 * kMiB, 512 * kMiB);
    engine.on_card(0, 256 * kMiB, 256 * kMiB);
    engine.on_card(0, 256 * kMiB, kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 2u);
    EXPECT_EQ(engine.failed, 1u);
    expect_in_use(engine);
}

INSTANTIATE_TEST_SUITE_P(, RefusedSubmission, ::testing::Values("EIO", "EBUSY", "EPERM", "EINVAL"),
                         [](const auto &action) { return std::string(action.param); });

TEST_F(RefusedFlush, fails_its_own_copies_only) {
    set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes#3=EIO"); // the first is tried with the first export
    EngineUser engine(card());
    for (unsigned i = 0; i < 3; ++i) {
        engine.post(Direction::up, engine.device, engine.mapping.get(), 4096, true);
        ASSERT_TRUE(engine.finish());
        EXPECT_EQ(engine.failed, i == 0 ? 0u : 1u) << i;
    }
    EXPECT_THAT(engine.problem, HasSubstr("cs_flush_pci_hbw_writes"));
    expect_in_use(engine);
}

TEST_F(OneRefusedSubmission, blocking_copy_is_retried_once) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "EIO") + ";" + at_submission(4, "EIO") + ";" + at_submission(5, "EIO"));
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
    EXPECT_TRUE(is_ok(mover.copy_now(memory, host.address(), 1000)));
    EXPECT_TRUE(is_ok(mover.copy_now(memory, host.address(), 1000))) << "UCP ends the process when a short copy fails";
    const auto refused = mover.copy_now(memory, host.address(), 1000);
    EXPECT_EQ(code_of(refused), EIO) << "the second try was refused too";
    EXPECT_THAT(text_of(refused), HasSubstr("hlthunk_command_submission"));
}

TEST_F(OneRefusedSubmission, engine_goes_on_where_the_driver_cannot_tell_the_status) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "EIO") + ";get_device_status_info=ENOMEM");
    EngineUser engine(card());
    for (unsigned i = 0; i < 3; ++i) {
        engine.down(0, 0, 4096);
        ASSERT_TRUE(engine.finish());
    }
    EXPECT_EQ(engine.failed, 1u);
    EXPECT_FALSE(engine.engine.failed());
}

TEST_F(OneRefusedSubmission, self_test_is_repeated) {
    set("SOFTGAUDI_FAULTS", "command_submission#5=EIO");
    EngineUser engine(card());
    EXPECT_TRUE(uses_completion_flags(engine.engine));
    expect_in_use(engine);
}

// ---- the driver does not say what has ended

class UnansweredWait : public EngineRefusalTest, public ::testing::WithParamInterface<const char *> {
protected:
    UnansweredWait() {
        change_settings([&](Settings &settings) { settings.completion = CompletionMode::driver; });
    }
};

TEST_P(UnansweredWait, is_repeated) {
    std::string faults;
    for (unsigned nth = 1; nth < 400; nth += 3)
        faults += (faults.empty() ? "wait_for_cs#" : ";wait_for_cs#") + std::to_string(nth) + "=" + GetParam();
    set("SOFTGAUDI_FAULTS", faults);
    EngineUser engine(card());
    for (std::uint64_t i = 0; i < 500; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.failed, 0u);
    expect_in_use(engine);
}

INSTANTIATE_TEST_SUITE_P(, UnansweredWait, ::testing::Values("EINTR", "EAGAIN", "ENOMEM"),
                         [](const auto &action) { return std::string(action.param); });

/// The driver never says what has ended, and a submission may still run when the engine abandons it.
class AbandonedSubmissionTest : public EngineRefusalTest {
protected:
    static void hang_at(const std::string &submission) { set("SOFTGAUDI_FAULTS", "wait_for_cs=ENOMEM;" + submission); }
};

class AbandonedCopy : public AbandonedSubmissionTest, public ::testing::WithParamInterface<const char *> {};

TEST_P(AbandonedCopy, its_memory_stays_mapped_and_is_not_used_again) {
    hang_at(at_submission(1, "hang"));
    const HostBuffer host(64 * kMiB);
    Tally tally;
    const auto unmaps = [] { return Counters(card()).calls("memory_unmap"); };
    std::uint64_t before = 0;
    {
        Mover mover(cards());
        const std::uint64_t memory = value(allocate(card(), {.length = host.size()}));
        const std::uint64_t bystander = value(allocate(card(), {.length = host.size()}));
        HostRange range(host.address(), host.size(), cards().all().size());
        HostRange *known = GetParam() == std::string("registered") ? &range : nullptr;
        ASSERT_EQ(mover.post({memory, host.address(), host.size(), known, Tally::count, &tally}),
                  Mover::Posted::started);
        ASSERT_TRUE(until([&] {
            mover.progress();
            return tally.ended == 1;
        }));
        EXPECT_EQ(tally.failed, 1u);
        EXPECT_THAT(tally.problem, HasSubstr("ENOMEM"));
        EXPECT_GT(value(start_engine(card()))->abandoned(), 0u);
        before = unmaps();
        EXPECT_TRUE(free_on(card(), memory));
        EXPECT_TRUE(free_on(card(), bystander));
        EXPECT_EQ(value(allocate(card(), {.length = host.size()})), bystander)
            << "memory that the submission may still write to is not used again, other memory is";
        EXPECT_EQ(usage_of(card()).abandoned, 1u);
    }
    EXPECT_EQ(unmaps(), before) << "memory was unmapped that the card may still access";
    EXPECT_GT(HostMemory::get().kept(), 0u);
    EXPECT_EQ(status(), thunk::Status::operational);
}

INSTANTIATE_TEST_SUITE_P(, AbandonedCopy, ::testing::Values("registered", "bounce"),
                         [](const auto &kind) { return std::string(kind.param); });

using AbandonedSelfTest = AbandonedSubmissionTest;

TEST_F(AbandonedSelfTest, its_memory_stays_mapped) {
    hang_at("command_submission#5=hang");
    const auto engine = value(start_engine(card()));
    EXPECT_TRUE(engine->failed());
    EXPECT_EQ(engine->abandoned(), 1u);
    EXPECT_THAT(engine->failure()->text, HasSubstr("ENOMEM"));
    EXPECT_EQ(value(start_engine(card())), engine) << "the self-test ran again";
    EXPECT_EQ(HostMemory::get().kept(), 1u);
    EXPECT_EQ(status(), thunk::Status::operational);
}

TEST(AbandonedSlice, is_not_used_again) {
    BounceRing ring;
    ASSERT_TRUE(ring.set_up(1));
    const unsigned abandoned = *ring.take(1000);
    const unsigned other = *ring.take(1000);
    void *const memory = ring.memory(abandoned);
    ring.abandon(abandoned);
    EXPECT_TRUE(ring.has_memory()) << "the other slice is in use";
    ring.release(other);
    const auto next = ring.take(1000);
    ASSERT_TRUE(next);
    EXPECT_NE(ring.memory(*next), memory) << "the ring has new memory";
    EXPECT_EQ(HostMemory::get().kept(), 1u);
}

} // namespace
