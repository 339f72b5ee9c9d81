// SPDX-License-Identifier: BSD-3-Clause
// What the engine asks of the driver: how many submissions, how many packets, and nothing while it is polled.
#include "engine.h"

#include "gaudi/settings.h"

#include <gmock/gmock.h>

#include <dlfcn.h>

#include <bit>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class CopierTest : public GaudiTest {
protected:
    /// How often the driver had no room for a submission: libhl-thunk would have spun there.
    static std::uint64_t submissions_that_waited() {
        void *library = dlopen(SOFTGAUDI_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
        if (!library)
            throw std::runtime_error("the library is not loaded");
        const auto get =
            reinterpret_cast<decltype(&hlthunk_get_cs_counters_info)>(dlsym(library, "hlthunk_get_cs_counters_info"));
        hl_info_cs_counters counters{};
        EXPECT_EQ(get(value(card().open()).fd(), &counters), 0);
        dlclose(library);
        return counters.ctx_max_cs_in_flight_drop_cnt;
    }
};

TEST_F(CopierTest, starting_leaves_nothing_allocated_and_nothing_on_its_way) {
    const Copier &copier = *value(card().copier());
    EXPECT_EQ(card().copier_if_started(), &copier);
    EXPECT_EQ(value(card().copier()), &copier) << "there is one";
    EXPECT_TRUE(copier.uses_words());
    EXPECT_FALSE(copier.busy());
    EXPECT_FALSE(copier.failed());
    EXPECT_EQ(copier.failure(), "");
    EXPECT_EQ(card().arena().usage().used_bytes, 0u);
}

TEST_F(CopierTest, a_card_on_which_nothing_arrives_has_no_engine) {
    set("SOFTGAUDI_PACE", "null"); // writes the words and moves nothing
    const auto refused = card().copier();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EIO);
    EXPECT_THAT(refused.error().text, HasSubstr("copies do not arrive"));
}

/// The trial's submissions: a small and a large copy down and up, four times; then each of eight engines and the stream
/// for small copies within the card, each followed by a copy up.
class Trial : public CopierTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(Trial, finds_a_word_without_its_data_on_each_stream) {
    set("SOFTGAUDI_FAULTS", "command_submission#" + std::to_string(GetParam()) + "=skip");
    EXPECT_FALSE(value(card().copier())->uses_words());
}

INSTANTIATE_TEST_SUITE_P(, Trial, ::testing::Values(1, 2, 3, 4, 17, 19, 31, 33),
                         [](const auto &nth) { return "submission_" + std::to_string(nth.param); });

TEST_F(CopierTest, a_copy_on_an_idle_queue_is_sent_at_once) {
    Engine engine(card());
    engine.down(0, 0, 4096);
    EXPECT_EQ(engine.submissions(), 1u);
    EXPECT_EQ(engine.ended, 0u) << "but never ends inside the call";
    EXPECT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 1u);
}

TEST_F(CopierTest, one_copy_at_a_time_costs_one_submission_and_no_other_call) {
    Engine engine(card());
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

TEST_F(CopierTest, the_directions_have_queues_of_their_own) {
    Engine engine(card());
    const std::uint64_t within = Counters(card())["card_bytes"];
    engine.down(0, 0, 4096);
    engine.up(kMiB, kMiB, 4096);
    engine.on_card(2 * kMiB, 3 * kMiB, 4096);
    EXPECT_EQ(engine.submissions(), 3u) << "each was idle";
    EXPECT_TRUE(engine.finish());
    const Counters counters(card());
    EXPECT_GE(counters["down_bytes"], 4096u);
    EXPECT_EQ(counters["card_bytes"], within + 4096);
}

TEST_F(CopierTest, a_thousand_copies_take_at_most_twenty_submissions) {
    Engine engine(card());
    for (std::uint64_t i = 0; i < 1000; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 1000u);
    EXPECT_EQ(engine.failed, 0u);
    EXPECT_LE(engine.submissions(), 20u);
}

TEST_F(CopierTest, adjacent_copies_become_one_packet) {
    Engine engine(card());
    const std::uint64_t before = Counters(card())["packets"];
    engine.down(8 * kMiB, 0, 1); // keeps the queue from being idle
    for (std::uint64_t i = 0; i < 64; ++i)
        engine.down(i * 1000, 100 + i * 1000, 1000);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.submissions(), 2u);
    EXPECT_EQ(Counters(card())["packets"] - before, 4u) << "a copy and a message each";
}

TEST_F(CopierTest, copies_adjacent_on_one_side_only_stay_apart) {
    Engine engine(card());
    const std::uint64_t before = Counters(card())["packets"];
    engine.down(8 * kMiB, 0, 1);
    for (std::uint64_t i = 0; i < 10; ++i)
        engine.down(i * 1000, 100 + i * 2000, 1000);
    for (std::uint64_t i = 0; i < 10; ++i)
        engine.down(kMiB + i * 2000, kMiB + i * 1000, 1000);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(Counters(card())["packets"] - before, 1u + 10 + 10 + 2);
}

TEST_F(CopierTest, any_number_of_adjacent_copies_arrives) {
    Engine engine(card());
    const Bytes sent = pattern(3'000 * 1000, 3);
    engine.host.write(0, sent);
    for (std::uint64_t i = 0; i < 3'000; ++i)
        engine.down(i * 1000, i * 1000, 1000);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 3'000u);
    EXPECT_LE(engine.submissions(), 48u);
    EXPECT_TRUE(Window(*cards().find(engine.device)).read(engine.device, sent.size()) == sent);
}

TEST_F(CopierTest, never_more_than_48_submissions_are_on_their_way) {
    Engine engine(card());
    for (std::uint64_t i = 0; i < 4'000; ++i) { // without progress nothing is seen to end
        engine.down(i * 2048, i * 2048, 1024);
        ASSERT_LE(engine.submissions(), 48u);
    }
    EXPECT_EQ(engine.submissions(), 48u);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 4'000u);
    EXPECT_EQ(engine.failed, 0u);
    EXPECT_EQ(submissions_that_waited(), 0u);
}

TEST_F(CopierTest, the_window_is_shared_by_the_directions) {
    Engine engine(card());
    for (std::uint64_t i = 0; i < 1'300; ++i) {
        engine.down(i * 2048, i * 2048, 1024);
        engine.up(16 * kMiB + i * 2048, 8 * kMiB + i * 2048, 1024);
        engine.on_card(32 * kMiB + i * 2048, 48 * kMiB + i * 2048, 1024);
        ASSERT_LE(engine.submissions(), 48u);
    }
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 3'900u);
    EXPECT_EQ(submissions_that_waited(), 0u);
}

TEST_F(CopierTest, a_slow_card_is_never_asked_for_more_than_its_window) {
    set("SOFTGAUDI_PACE", "down:1,submit:100");
    Engine engine(card());
    for (unsigned round = 0; round < 3; ++round) {
        for (std::uint64_t i = 0; i < 4'000; ++i)
            engine.down(i * 2048, i * 2048, 1024);
        ASSERT_TRUE(engine.finish());
    }
    EXPECT_EQ(engine.ended, 12'000u);
    EXPECT_EQ(submissions_that_waited(), 0u);
}

TEST_F(CopierTest, long_copies_are_split_so_that_none_runs_long) {
    Engine engine(card(), 200 * kMiB, 200 * kMiB);
    engine.down(0, 0, 200 * kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.submissions(), 13u) << "of 16 MiB each";
    EXPECT_EQ(engine.ended, 1u);
}

TEST_F(CopierTest, a_long_copy_within_the_card_is_divided_among_its_engines) {
    Engine engine(card(), kMiB, 128 * kMiB);
    const Bytes sent = pattern(kMiB, 3);
    engine.host.write(0, sent);
    for (std::uint64_t offset = 0; offset < 64 * kMiB; offset += 4 * kMiB)
        engine.down(0, offset, kMiB);
    ASSERT_TRUE(engine.finish());
    const std::uint64_t before = engine.submissions();
    engine.on_card(0, 64 * kMiB, 64 * kMiB);
    const auto engines = static_cast<std::uint64_t>(std::popcount(card().info().edma_enabled_mask));
    ASSERT_GT(engines, 1u);
    EXPECT_GE(engine.submissions() - before, engines) << "each has its share at once";
    ASSERT_TRUE(engine.finish());
    for (std::uint64_t offset = 0; offset < 64 * kMiB; offset += 4 * kMiB) {
        engine.up(64 * kMiB + offset, 0, kMiB);
        ASSERT_TRUE(engine.finish());
        ASSERT_EQ(engine.host.read(0, kMiB), sent) << offset;
    }
}

TEST_F(CopierTest, a_small_copy_does_not_wait_behind_large_ones) {
    Engine engine(card(), 200 * kMiB, 200 * kMiB);
    engine.down(0, 0, 199 * kMiB);
    const std::uint64_t before = engine.submissions();
    engine.down(199 * kMiB, 199 * kMiB, 4096);
    EXPECT_EQ(engine.submissions(), before + 1) << "its stream was idle";
    ASSERT_TRUE(engine.finish());
}

TEST_F(CopierTest, a_lane_that_is_always_full_does_not_starve_the_others) {
    Engine engine(card(), 64 * kMiB, 64 * kMiB);
    Engine other(card(), 4 * kMiB, 4 * kMiB);
    for (std::uint64_t i = 0; i < 64 * 60; ++i) // more than the window takes
        engine.down(i * 8192, i * 8192, 4096);
    other.up(0, 0, 4096);
    ASSERT_TRUE(until([&] {
        for (std::uint64_t i = 0; i < 64; ++i) // there is always more
            engine.down(i * 8192, i * 8192, 4096);
        engine.copier.progress();
        engine.channel.dispatch();
        other.channel.dispatch();
        return other.ended == 1;
    }));
    ASSERT_TRUE(engine.finish());
}

TEST_F(CopierTest, copies_of_nothing_end_too) {
    Engine engine(card());
    engine.down(0, 0, 0);
    EXPECT_EQ(engine.ended, 0u);
    engine.down(0, 0, 100);
    for (int i = 0; i < 200; ++i)
        engine.down(0, 0, 0);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 202u);
    EXPECT_EQ(engine.failed, 0u);
}

TEST_F(CopierTest, polling_makes_no_driver_call) {
    set("SOFTGAUDI_PACE", "down:1"); // a copy of 16 MiB takes 16 ms: there is something to poll for
    Engine engine(card());
    const std::uint64_t before = Counters(card()).calls();
    engine.down(0, 0, 16 * kMiB);
    std::uint64_t polls = 0;
    ASSERT_TRUE(until([&] {
        engine.copier.progress();
        ++polls;
        return engine.channel.dispatch() != 0;
    }));
    EXPECT_GT(polls, 1u);
    EXPECT_EQ(Counters(card()).calls(), before + 1) << "the submission, and no more";
}

TEST_F(CopierTest, completion_can_be_what_the_driver_says) {
    settings().completion_by_driver = true;
    Engine engine(card());
    EXPECT_FALSE(engine.copier.uses_words());
    const Bytes sent = pattern(kMiB, 1);
    engine.host.write(0, sent);
    engine.down(0, 0, kMiB);
    ASSERT_TRUE(engine.finish());
    EXPECT_TRUE(Window(*cards().find(engine.device)).read(engine.device, kMiB) == sent);
    EXPECT_GE(Counters(card()).calls("wait_for_cs"), 1u);
}

TEST_F(CopierTest, draining_waits_for_all) {
    Engine engine(card());
    EXPECT_TRUE(engine.copier.drain(0)) << "nothing to wait for";
    for (std::uint64_t i = 0; i < 500; ++i)
        engine.down(i * 8192, i * 8192, 4096);
    EXPECT_TRUE(engine.copier.busy());
    EXPECT_TRUE(engine.copier.drain(60'000));
    EXPECT_FALSE(engine.copier.busy());
    EXPECT_EQ(engine.ended, 0u) << "only its owner is told";
    EXPECT_EQ(engine.channel.dispatch(), 500u);
}

TEST_F(CopierTest, a_ring_that_cannot_be_mapped_is_an_error_that_passes) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#1=ENOMEM");
    const auto refused = card().copier();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_EQ(card().copier_if_started(), nullptr);
    EXPECT_TRUE(card().copier()) << "the next time it works";
}

TEST_F(CopierTest, users_in_many_threads_share_a_card) {
    constexpr unsigned kThreads = 4, kRounds = 60;
    Card &shared = card();
    value(shared.copier());
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            Engine engine(shared, 2 * kMiB, 2 * kMiB);
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
