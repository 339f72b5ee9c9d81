// SPDX-License-Identifier: BSD-3-Clause
// A card that is reset or lost: all posted copies end with an error, none hangs, and none that failed ends as a success.
#include "engine_user.h"

#include "gaudi/card/settings.h"

#include <gmock/gmock.h>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class EngineFailureTest : public GaudiTest {
protected:
    static void post_many(EngineUser &engine) {
        for (std::uint64_t i = 0; i < 500; ++i) {
            engine.down(i * 8192, i * 8192, 4096);
            engine.up(32 * kMiB + i * 8192, 8 * kMiB + i * 8192, 4096);
            engine.on_card(40 * kMiB + i * 8192, 48 * kMiB + i * 8192, 4096);
        }
    }
    static void expect_dead(EngineUser &engine) {
        EXPECT_EQ(engine.ended, engine.posted);
        EXPECT_GT(engine.failed, 0u);
        EXPECT_EQ(engine.error, EIO);
        EXPECT_TRUE(engine.engine.failed());
        EXPECT_FALSE(engine.engine.busy());
        ASSERT_NE(engine.engine.failure(), nullptr);
        EXPECT_FALSE(engine.engine.failure()->text.empty());
        const unsigned failed = engine.failed;
        engine.down(0, 0, 4096);
        EXPECT_EQ(engine.failed, failed) << "a copy ended inside the call that posted it";
        EXPECT_TRUE(engine.finish());
        EXPECT_EQ(engine.failed, failed + 1) << "later copies fail too";
    }
};

using CardLoss = EngineFailureTest;
using CardReset = EngineFailureTest;
using DriverShortage = EngineFailureTest;

TEST_F(CardReset, posted_copies_end_with_an_error) {
    set("SOFTGAUDI_FAULTS", at_submission(8, "reset"));
    EngineUser engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    expect_dead(engine);
}

TEST_F(CardLoss, posted_copies_end_with_an_error) {
    set("SOFTGAUDI_FAULTS", at_submission(8, "lose"));
    EngineUser engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    expect_dead(engine);
}

class DividedCopy : public EngineFailureTest, public ::testing::WithParamInterface<const char *> {};

TEST_P(DividedCopy, fails_once_though_some_of_its_parts_succeeded) {
    set("SOFTGAUDI_FAULTS", at_submission(5, GetParam()));
    EngineUser engine(card(), 16 * kMiB, 512 * kMiB);
    engine.on_card(0, 256 * kMiB, 256 * kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.failed, 1u);
    expect_dead(engine);
}

INSTANTIATE_TEST_SUITE_P(, DividedCopy, ::testing::Values("reset", "lose"),
                         [](const auto &action) { return std::string(action.param); });

TEST_F(CardReset, first_submission_ends_with_an_error) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "reset"));
    EngineUser engine(card(), 16 * kMiB, 64 * kMiB);
    engine.down(0, 0, 4096);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.failed, 1u);
    expect_dead(engine);
}

TEST_F(DriverShortage, transient_refusal_is_retried) {
    set("SOFTGAUDI_FAULTS",
        at_submission(3, "ENOMEM") + ";" + at_submission(4, "EAGAIN") + ";" + at_submission(7, "EINTR"));
    EngineUser engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, engine.posted);
    EXPECT_EQ(engine.failed, 0u);
    EXPECT_FALSE(engine.engine.failed());
}

TEST_F(DriverShortage, lasting_refusal_fails_all_copies) {
    set("SOFTGAUDI_FAULTS", at_submission(3, "ENOMEM", "+"));
    EngineUser engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, engine.posted);
    EXPECT_GT(engine.failed, 0u);
    EXPECT_THAT(engine.problem, HasSubstr("ENOMEM"));
    EXPECT_FALSE(engine.engine.failed()) << "the card is well";
}

TEST_F(CardReset, long_copy_fails_though_some_of_its_parts_succeeded) {
    set("SOFTGAUDI_FAULTS", at_submission(3, "reset"));
    EngineUser engine(card(), 200 * kMiB, 200 * kMiB);
    engine.down(0, 0, 200 * kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 1u);
    EXPECT_EQ(engine.failed, 1u);
    expect_dead(engine);
}

TEST_F(CardReset, running_copy_fails_by_the_driver) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#5=reset"); // after ring, self-test (two) and the engine's memory below
    set("SOFTGAUDI_PACE", "down:0.01");                 // the self-test's 2 MiB take 0.2 s, the copies minutes
    change_settings([&](Settings &settings) { settings.completion = CompletionMode::driver; });
    EngineUser engine(card(), kMiB, 64 * kMiB);
    for (int i = 0; i < 1000; ++i)
        engine.down(0, 0, kMiB);
    EXPECT_FALSE(engine.engine.flush(0));
    HostBuffer other(4096);
    EXPECT_FALSE(thunk::map_host(value(card().open())->device(), other.data(), other.size()));
    ASSERT_TRUE(engine.finish());
    expect_dead(engine);
}

TEST_F(CardLoss, running_copy_fails_when_its_completion_flag_is_not_set) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#5=lose"); // after ring, self-test (two) and the engine's memory below
    set("SOFTGAUDI_PACE", "down:0.01");                // the self-test's 2 MiB take 0.2 s, the copies minutes
    EngineUser engine(card(), kMiB, 64 * kMiB);
    EXPECT_TRUE(uses_completion_flags(engine.engine));
    for (int i = 0; i < 1000; ++i)
        engine.down(0, 0, kMiB);
    HostBuffer other(4096);
    EXPECT_FALSE(thunk::map_host(value(card().open())->device(), other.data(), other.size()));
    ASSERT_TRUE(engine.finish());
    EXPECT_GT(engine.failed, 0u);
    expect_dead(engine);
}

TEST_F(CardReset, other_cards_go_on) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset", "", "@0"));
    EngineUser dead(card(0)), alive(card(1));
    post_many(dead);
    post_many(alive);
    ASSERT_TRUE(dead.finish());
    ASSERT_TRUE(alive.finish());
    expect_dead(dead);
    EXPECT_EQ(alive.ended, alive.posted);
    EXPECT_EQ(alive.failed, 0u);
}

TEST_F(CardReset, self_test_fails_and_no_engine_is_started) {
    set("SOFTGAUDI_FAULTS", "command_submission#5=reset");
    const auto refused = start_engine(card());
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, HasSubstr(card().bus_id()));
    EXPECT_EQ(started_engine(card()), nullptr);
    EXPECT_TRUE(is_ok(start_engine(card()))) << "the card was closed, and is opened anew";
}

} // namespace
