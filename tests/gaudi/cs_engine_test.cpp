// SPDX-License-Identifier: BSD-3-Clause
// The calls of the engine to the driver: how many submissions, how many packets, and none while it is polled.
#include "engine_user.h"

#include "gaudi/card/settings.h"

#include <gmock/gmock.h>

#include <dlfcn.h>

#include <bit>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class CsEngineTest : public GaudiTest {
protected:
    /// How often the driver had no room for a submission: libhl-thunk spins there.
    static std::uint64_t count_spinning_submissions() {
        void *library = dlopen(SOFTGAUDI_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
        if (!library)
            throw std::runtime_error("the library is not loaded");
        const auto get =
            reinterpret_cast<decltype(&hlthunk_get_cs_counters_info)>(dlsym(library, "hlthunk_get_cs_counters_info"));
        hl_info_cs_counters counters{};
        EXPECT_EQ(get(value(card().open())->device().fd(), &counters), 0);
        dlclose(library);
        return counters.ctx_max_cs_in_flight_drop_cnt;
    }
};

using Completion = CsEngineTest;
using EmptyCopy = CsEngineTest;
using EngineFlush = CsEngineTest;
using EngineStart = CsEngineTest;
using Lane = CsEngineTest;
using LongCopy = CsEngineTest;
using Submission = CsEngineTest;
using SubmissionWindow = CsEngineTest;

TEST_F(EngineStart, leaves_nothing_allocated_and_nothing_in_flight) {
    const auto engine = value(start_engine(card()));
    EXPECT_EQ(started_engine(card()), engine.get());
    EXPECT_EQ(value(start_engine(card())), engine) << "a second engine was started";
    EXPECT_TRUE(uses_completion_flags(*engine));
    EXPECT_FALSE(engine->busy());
    EXPECT_FALSE(engine->failed());
    EXPECT_EQ(engine->failure(), nullptr);
    EXPECT_EQ(usage_of(card()).used_bytes, 0u);
}

TEST_F(EngineStart, refused_where_no_copy_arrives) {
    set("SOFTGAUDI_PACE", "null"); // sets the completion flags and moves nothing
    const auto refused = start_engine(card());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EIO);
    EXPECT_THAT(refused.error().text, HasSubstr("copies do not arrive"));
}

/// The submissions of the self-test: a small and a large copy down and up, four times; then each of eight engines and the stream
/// for small copies within the card, each followed by a copy up.
class SelfTest : public CsEngineTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(SelfTest, completion_flag_before_its_data_is_found_on_each_stream) {
    set("SOFTGAUDI_FAULTS", "command_submission#" + std::to_string(GetParam()) + "=skip");
    EXPECT_FALSE(uses_completion_flags(*value(start_engine(card()))));
}

INSTANTIATE_TEST_SUITE_P(, SelfTest, ::testing::Values(1, 2, 3, 4, 17, 19, 31, 33),
                         [](const auto &nth) { return "submission_" + std::to_string(nth.param); });

TEST_F(Submission, copy_on_an_idle_queue_is_sent_at_once) {
    EngineUser engine(card());
    engine.down(0, 0, 4096);
    EXPECT_EQ(engine.submissions(), 1u);
    EXPECT_EQ(engine.ended, 0u) << "the copy ended inside the call that posted it";
    EXPECT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 1u);
}

TEST_F(Submission, single_copy_makes_no_other_driver_call) {
    EngineUser engine(card());
    engine.down(0, 0, 4096);
    ASSERT_TRUE(engine.finish());
    const std::uint64_t before = Counters(card()).calls();
    for (unsigned i = 0; i < 100; ++i) {
        engine.down(0, 0, 4096);
        ASSERT_TRUE(engine.finish());
    }
    EXPECT_EQ(engine.submissions(), 101u);
    EXPECT_EQ(Counters(card()).calls(), before + 100);
}

TEST_F(Submission, each_direction_has_its_own_queue) {
    EngineUser engine(card());
    const std::uint64_t within = Counters(card())["card_bytes"];
    engine.down(0, 0, 4096);
    engine.up(kMiB, kMiB, 4096);
    engine.on_card(2 * kMiB, 3 * kMiB, 4096);
    EXPECT_EQ(engine.submissions(), 3u) << "each queue was idle";
    EXPECT_TRUE(engine.finish());
    const Counters counters(card());
    EXPECT_GE(counters["down_bytes"], 4096u);
    EXPECT_EQ(counters["card_bytes"], within + 4096);
}

TEST_F(Submission, thousand_copies_take_at_most_twenty) {
    EngineUser engine(card());
    for (std::uint64_t i = 0; i < 1000; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 1000u);
    EXPECT_EQ(engine.failed, 0u);
    EXPECT_LE(engine.submissions(), 20u);
}

TEST_F(Submission, adjacent_copies_become_one_packet) {
    EngineUser engine(card());
    const std::uint64_t before = Counters(card())["packets"];
    engine.down(8 * kMiB, 0, 1); // keeps the queue from being idle
    for (std::uint64_t i = 0; i < 64; ++i)
        engine.down(i * 1000, 100 + i * 1000, 1000);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.submissions(), 2u);
    EXPECT_EQ(Counters(card())["packets"] - before, 4u) << "a copy and a message each";
}

TEST_F(Submission, copies_adjacent_on_one_side_only_are_not_merged) {
    EngineUser engine(card());
    const std::uint64_t before = Counters(card())["packets"];
    engine.down(8 * kMiB, 0, 1);
    for (std::uint64_t i = 0; i < 10; ++i)
        engine.down(i * 1000, 100 + i * 2000, 1000);
    for (std::uint64_t i = 0; i < 10; ++i)
        engine.down(kMiB + i * 2000, kMiB + i * 1000, 1000);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(Counters(card())["packets"] - before, 1u + 10 + 10 + 2);
}

TEST_F(Submission, thousands_of_adjacent_copies_arrive) {
    EngineUser engine(card());
    const Bytes sent = pattern(3'000 * 1000, 3);
    engine.host.write(0, sent);
    for (std::uint64_t i = 0; i < 3'000; ++i)
        engine.down(i * 1000, i * 1000, 1000);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 3'000u);
    EXPECT_LE(engine.submissions(), 48u);
    EXPECT_TRUE(Window(*find_region(engine.device)).read(engine.device, sent.size()) == sent);
}

TEST_F(SubmissionWindow, at_most_48_are_in_flight) {
    EngineUser engine(card());
    for (std::uint64_t i = 0; i < 4'000; ++i) { // without progress nothing is seen to end
        engine.down(i * 2048, i * 2048, 1024);
        ASSERT_LE(engine.submissions(), 48u);
    }
    EXPECT_EQ(engine.submissions(), 48u);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 4'000u);
    EXPECT_EQ(engine.failed, 0u);
    EXPECT_EQ(count_spinning_submissions(), 0u);
}

TEST_F(SubmissionWindow, directions_share_it) {
    EngineUser engine(card());
    for (std::uint64_t i = 0; i < 1'300; ++i) {
        engine.down(i * 2048, i * 2048, 1024);
        engine.up(16 * kMiB + i * 2048, 8 * kMiB + i * 2048, 1024);
        engine.on_card(32 * kMiB + i * 2048, 48 * kMiB + i * 2048, 1024);
        ASSERT_LE(engine.submissions(), 48u);
    }
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 3'900u);
    EXPECT_EQ(count_spinning_submissions(), 0u);
}

TEST_F(SubmissionWindow, slow_card_never_makes_a_submission_spin) {
    set("SOFTGAUDI_PACE", "down:1,submit:100");
    EngineUser engine(card());
    for (unsigned round = 0; round < 3; ++round) {
        for (std::uint64_t i = 0; i < 4'000; ++i)
            engine.down(i * 2048, i * 2048, 1024);
        ASSERT_TRUE(engine.finish());
    }
    EXPECT_EQ(engine.ended, 12'000u);
    EXPECT_EQ(count_spinning_submissions(), 0u);
}

TEST_F(LongCopy, is_split_into_submissions_of_16_mib) {
    EngineUser engine(card(), 200 * kMiB, 200 * kMiB);
    engine.down(0, 0, 200 * kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.submissions(), 13u);
    EXPECT_EQ(engine.ended, 1u);
}

TEST_F(LongCopy, within_the_card_is_divided_among_its_dma_engines) {
    EngineUser engine(card(), kMiB, 128 * kMiB);
    const Bytes sent = pattern(kMiB, 3);
    engine.host.write(0, sent);
    for (std::uint64_t offset = 0; offset < 64 * kMiB; offset += 4 * kMiB)
        engine.down(0, offset, kMiB);
    ASSERT_TRUE(engine.finish());
    const std::uint64_t before = engine.submissions();
    engine.on_card(0, 64 * kMiB, 64 * kMiB);
    const auto engines = static_cast<std::uint64_t>(std::popcount(card().info().edma_enabled_mask));
    ASSERT_GT(engines, 1u);
    EXPECT_GE(engine.submissions() - before, engines) << "a DMA engine has no share";
    ASSERT_TRUE(engine.finish());
    for (std::uint64_t offset = 0; offset < 64 * kMiB; offset += 4 * kMiB) {
        engine.up(64 * kMiB + offset, 0, kMiB);
        ASSERT_TRUE(engine.finish());
        ASSERT_EQ(engine.host.read(0, kMiB), sent) << offset;
    }
}

TEST_F(Lane, small_copy_does_not_wait_behind_large_ones) {
    EngineUser engine(card(), 200 * kMiB, 200 * kMiB);
    engine.down(0, 0, 199 * kMiB);
    const std::uint64_t before = engine.submissions();
    engine.down(199 * kMiB, 199 * kMiB, 4096);
    EXPECT_EQ(engine.submissions(), before + 1) << "its stream was idle";
    ASSERT_TRUE(engine.finish());
}

TEST_F(Lane, full_one_does_not_starve_the_others) {
    EngineUser engine(card(), 64 * kMiB, 64 * kMiB);
    EngineUser other(card(), 4 * kMiB, 4 * kMiB);
    for (std::uint64_t i = 0; i < 64 * 60; ++i) // more than the window takes
        engine.down(i * 8192, i * 8192, 4096);
    other.up(0, 0, 4096);
    ASSERT_TRUE(until([&] {
        for (std::uint64_t i = 0; i < 64; ++i) // the lane stays full
            engine.down(i * 8192, i * 8192, 4096);
        engine.engine.progress();
        engine.channel.dispatch();
        other.channel.dispatch();
        return other.ended == 1;
    }));
    ASSERT_TRUE(engine.finish());
}

TEST_F(EmptyCopy, ends_like_any_other) {
    EngineUser engine(card());
    engine.down(0, 0, 0);
    EXPECT_EQ(engine.ended, 0u);
    engine.down(0, 0, 100);
    for (int i = 0; i < 200; ++i)
        engine.down(0, 0, 0);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 202u);
    EXPECT_EQ(engine.failed, 0u);
}

TEST_F(Completion, polling_makes_no_driver_call) {
    set("SOFTGAUDI_PACE", "down:1"); // a copy of 16 MiB takes 16 ms, and is polled for meanwhile
    EngineUser engine(card());
    const std::uint64_t before = Counters(card()).calls();
    engine.down(0, 0, 16 * kMiB);
    std::uint64_t polls = 0;
    ASSERT_TRUE(until([&] {
        engine.engine.progress();
        ++polls;
        return engine.channel.dispatch() != 0;
    }));
    EXPECT_GT(polls, 1u);
    EXPECT_EQ(Counters(card()).calls(), before + 1) << "the submission, and no more";
}

TEST_F(Completion, driver_is_asked_where_the_setting_says_so) {
    change_settings([&](Settings &settings) { settings.completion = CompletionMode::driver; });
    EngineUser engine(card());
    EXPECT_FALSE(uses_completion_flags(engine.engine));
    const Bytes sent = pattern(kMiB, 1);
    engine.host.write(0, sent);
    engine.down(0, 0, kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_TRUE(Window(*find_region(engine.device)).read(engine.device, kMiB) == sent);
    EXPECT_GE(Counters(card()).calls("wait_for_cs"), 1u);
}

TEST_F(EngineFlush, waits_for_all_copies) {
    EngineUser engine(card());
    EXPECT_TRUE(engine.engine.flush(0)) << "no copy is posted yet";
    for (std::uint64_t i = 0; i < 500; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    EXPECT_TRUE(engine.engine.busy());
    EXPECT_TRUE(engine.engine.flush(60'000));
    EXPECT_FALSE(engine.engine.busy());
    EXPECT_EQ(engine.ended, 0u) << "a completion was called by another than the channel's owner";
    EXPECT_EQ(engine.channel.dispatch(), 500u);
}

TEST_F(EngineStart, refused_mapping_of_the_ring_is_tried_again) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#1=ENOMEM");
    const auto refused = start_engine(card());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_EQ(started_engine(card()), nullptr);
    EXPECT_TRUE(start_engine(card())) << "the second call does not try again";
}

TEST_F(CsEngineTest, users_in_four_threads_share_a_card) {
    constexpr unsigned kThreads = 4, kRounds = 60;
    Card &shared = card();
    value(start_engine(shared));
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            EngineUser engine(shared, 2 * kMiB, 2 * kMiB);
            Random random(t);
            for (unsigned round = 0; round < kRounds; ++round) {
                const std::uint64_t length = random.size(0, 18), from = random.below(1000), to = random.below(1000);
                const Bytes sent = pattern(length, t * 1000 + round);
                engine.host.write(from, sent);
                engine.down(from, to, length);
                wrong += engine.finish() ? 0 : 1;
                engine.on_card(to, kMiB + to, length);
                wrong += engine.finish() ? 0 : 1;
                engine.up(kMiB + to, kMiB + from, length);
                wrong += engine.finish() ? 0 : 1;
                wrong += engine.host.read(kMiB + from, length) == sent ? 0 : 1;
            }
            wrong += engine.failed;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong.load(), 0u);
}

} // namespace
