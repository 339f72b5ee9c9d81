// SPDX-License-Identifier: BSD-3-Clause
// A card that is reset or lost: whatever was posted ends with an error, nothing hangs, nothing is called a success.
#include "engine.h"

#include <gmock/gmock.h>

#include "gaudi/settings.h"

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class CopierFailure : public GaudiTest {
protected:
    static void post_many(Engine &engine) {
        for (std::uint64_t i = 0; i < 500; ++i) {
            engine.down(i * 8192, i * 8192, 4096);
            engine.up(32 * kMiB + i * 8192, 8 * kMiB + i * 8192, 4096);
            engine.on_card(40 * kMiB + i * 8192, 48 * kMiB + i * 8192, 4096);
        }
    }
    static void expect_dead(Engine &engine) {
        EXPECT_EQ(engine.ended, engine.posted);
        EXPECT_GT(engine.failed, 0u);
        EXPECT_EQ(engine.error, EIO);
        EXPECT_TRUE(engine.copier.failed());
        EXPECT_FALSE(engine.copier.busy());
        EXPECT_NE(engine.copier.failure(), "");
        const unsigned failed = engine.failed;
        engine.down(0, 0, 4096);
        EXPECT_EQ(engine.failed, failed) << "never from inside the call";
        EXPECT_TRUE(engine.finish());
        EXPECT_EQ(engine.failed, failed + 1) << "what comes later fails too";
    }
};

TEST_F(CopierFailure, a_reset_ends_everything_that_was_posted_with_an_error) {
    set("SOFTGAUDI_FAULTS", at_submission(8, "reset"));
    Engine engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    expect_dead(engine);
}

TEST_F(CopierFailure, a_lost_card_ends_everything_that_was_posted_with_an_error) {
    set("SOFTGAUDI_FAULTS", at_submission(8, "lose"));
    Engine engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    expect_dead(engine);
}

class DividedCopy : public CopierFailure, public ::testing::WithParamInterface<const char *> {};

TEST_P(DividedCopy, fails_as_one_though_some_of_its_parts_went_well) {
    set("SOFTGAUDI_FAULTS", at_submission(5, GetParam()));
    Engine engine(card(), 16 * kMiB, 512 * kMiB);
    engine.on_card(0, 256 * kMiB, 256 * kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.failed, 1u);
    expect_dead(engine);
}

INSTANTIATE_TEST_SUITE_P(, DividedCopy, ::testing::Values("reset", "lose"),
                         [](const auto &action) { return std::string(action.param); });

TEST_F(CopierFailure, a_reset_at_the_first_submission_does_too) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "reset"));
    Engine engine(card(), 16 * kMiB, 64 * kMiB);
    engine.down(0, 0, 4096);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.failed, 1u);
    expect_dead(engine);
}

TEST_F(CopierFailure, a_driver_that_is_short_of_memory_for_a_moment_is_asked_again) {
    set("SOFTGAUDI_FAULTS",
        at_submission(3, "ENOMEM") + ";" + at_submission(4, "EAGAIN") + ";" + at_submission(7, "EINTR"));
    Engine engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, engine.posted);
    EXPECT_EQ(engine.failed, 0u);
    EXPECT_FALSE(engine.copier.failed());
}

TEST_F(CopierFailure, driver_short_of_memory_for_good_fails_all_copies) {
    set("SOFTGAUDI_FAULTS", at_submission(3, "ENOMEM", "+"));
    Engine engine(card(), 16 * kMiB, 64 * kMiB);
    post_many(engine);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, engine.posted);
    EXPECT_GT(engine.failed, 0u);
    EXPECT_THAT(engine.copier.problem().text, HasSubstr("ENOMEM"));
    EXPECT_FALSE(engine.copier.failed()) << "the card is well";
}

TEST_F(CopierFailure, parts_of_a_long_copy_are_no_success) {
    set("SOFTGAUDI_FAULTS", at_submission(3, "reset"));
    Engine engine(card(), 200 * kMiB, 200 * kMiB);
    engine.down(0, 0, 200 * kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 1u);
    EXPECT_EQ(engine.failed, 1u);
    expect_dead(engine);
}

TEST_F(CopierFailure, a_reset_while_a_copy_runs_is_noticed_by_polling) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#5=reset"); // after ring, self-test (two) and the engine's memory below
    set("SOFTGAUDI_PACE", "down:0.01");                 // the self-test's 2 MiB take 0.2 s, the copies minutes
    settings().completion_by_driver = true;
    Engine engine(card(), kMiB, 64 * kMiB);
    for (int i = 0; i < 1000; ++i)
        engine.down(0, 0, kMiB);
    EXPECT_FALSE(engine.copier.drain(0));
    HostMemory other(4096);
    EXPECT_FALSE(thunk::map_host(value(card().open()), other.data(), other.size()));
    ASSERT_TRUE(engine.finish());
    expect_dead(engine);
}

TEST_F(CopierFailure, a_card_lost_while_a_copy_runs_is_noticed_when_its_word_does_not_come) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#5=lose"); // after ring, self-test (two) and the engine's memory below
    set("SOFTGAUDI_PACE", "down:0.01");                // the self-test's 2 MiB take 0.2 s, the copies minutes
    Engine engine(card(), kMiB, 64 * kMiB);
    EXPECT_TRUE(engine.copier.uses_words());
    for (int i = 0; i < 1000; ++i)
        engine.down(0, 0, kMiB);
    HostMemory other(4096);
    EXPECT_FALSE(thunk::map_host(value(card().open()), other.data(), other.size()));
    ASSERT_TRUE(engine.finish());
    EXPECT_GT(engine.failed, 0u);
    expect_dead(engine);
}

TEST_F(CopierFailure, other_cards_go_on) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset", "", "@3")); // the server's card 3 is our first
    Engine dead(card(0)), alive(card(1));
    post_many(dead);
    post_many(alive);
    ASSERT_TRUE(dead.finish());
    ASSERT_TRUE(alive.finish());
    expect_dead(dead);
    EXPECT_EQ(alive.ended, alive.posted);
    EXPECT_EQ(alive.failed, 0u);
}

TEST_F(CopierFailure, a_card_that_dies_in_the_self_test_has_no_engine) {
    set("SOFTGAUDI_FAULTS", "command_submission#5=reset");
    const auto copier = card().copier();
    ASSERT_FALSE(copier);
    EXPECT_THAT(copier.error().text, HasSubstr(card().bus_id()));
    EXPECT_EQ(card().copier_if_started(), nullptr);
    EXPECT_FALSE(card().copier()) << "and stays without";
}

} // namespace
