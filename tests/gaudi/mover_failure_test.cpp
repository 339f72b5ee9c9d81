// SPDX-License-Identifier: BSD-3-Clause
// Copies on a card that is reset or lost, and copies without the means: they fail with the cause, and others go on.
#include "engine_user.h"

#include "gaudi/copy/mover.h"
#include "gaudi/counters/counter_page.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class MoverFailure : public GaudiTest {
protected:
    static std::uint64_t device(std::size_t index = 0) { return value(allocate(card(index), {.length = 64 * kMiB})); }
    /// The error of a copy that is refused when it is posted; empty for one that was started.
    static Error refusal(Mover &mover, std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                         HostRange *range = nullptr) {
        static Tally tally;
        const auto posted = mover.post({destination, source, length, range, Tally::count, &tally});
        return posted ? Error{} : posted.error();
    }

    const HostBuffer m_host{32 * kMiB};
};

TEST_F(MoverFailure, card_reset_fails_staged_copies) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset"));
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_EQ(code_of(run_copy(mover, memory, m_host.address(), 32 * kMiB)), EIO);
    EXPECT_EQ(mover.outstanding(), 0u);
    const Error refused = refusal(mover, memory, m_host.address(), 100);
    EXPECT_EQ(refused.code, EIO) << "later copies are refused";
    EXPECT_THAT(refused.text, AllOf(HasSubstr(card().bus_id()), HasSubstr("takes no copies"),
                                    HasSubstr("hlthunk_command_submission")));
}

TEST_F(MoverFailure, card_loss_fails_direct_copies) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "lose"));
    Mover mover(cards());
    const std::uint64_t memory = device();
    HostRange range(m_host.address(), m_host.size(), cards().all().size());
    EXPECT_EQ(code_of(run_copy(mover, m_host.address(), memory, kMiB, &range)), EIO);
    const Error refused = refusal(mover, m_host.address(), memory, kMiB, &range);
    EXPECT_EQ(refused.code, EIO);
    EXPECT_THAT(refused.text, HasSubstr("ENODEV"));
}

TEST_F(MoverFailure, blocking_copy_returns_the_cause) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "reset"));
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_TRUE(is_ok(mover.copy_now(memory, m_host.address(), 100)));
    const auto failed = mover.copy_now(memory, m_host.address(), 100);
    EXPECT_EQ(code_of(failed), EIO);
    EXPECT_THAT(text_of(failed), AllOf(HasSubstr("card " + card().bus_id() + ": a copy failed"),
                                       HasSubstr("hlthunk_command_submission")));
    const auto refused = mover.copy_now(memory, memory + kMiB, 100);
    EXPECT_EQ(code_of(refused), EIO);
    EXPECT_THAT(text_of(refused), HasSubstr("takes no copies"));
}

TEST_F(MoverFailure, reset_of_one_card_fails_only_its_copies) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset", "", "@1"));
    Mover mover(cards());
    const std::uint64_t alive = device(0), dying = device(1);
    EXPECT_EQ(code_of(run_copy(mover, dying, alive, 32 * kMiB)), EIO);
    EXPECT_EQ(mover.outstanding(), 0u);
    EXPECT_EQ(refusal(mover, dying, alive, kMiB).code, EIO);
    EXPECT_TRUE(is_ok(run_copy(mover, alive, m_host.address(), kMiB))) << "the other card goes on";
    EXPECT_TRUE(is_ok(mover.copy_now(alive + 8 * kMiB, alive, kMiB)));
}

TEST_F(MoverFailure, card_reset_fails_copies_of_other_movers) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset"));
    Mover mover(cards()), other(cards());
    const std::uint64_t memory = device();
    EXPECT_TRUE(is_ok(other.copy_now(memory, m_host.address(), 100)));
    EXPECT_EQ(code_of(run_copy(mover, memory, m_host.address(), 32 * kMiB)), EIO);
    const auto refused = other.copy_now(memory, m_host.address(), 100);
    EXPECT_EQ(code_of(refused), EIO);
    EXPECT_THAT(text_of(refused), HasSubstr("takes no copies"));
}

TEST_F(MoverFailure, unmappable_bounce_ring_fails_the_copy) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#4+=ENOMEM"); // all but the command ring and the self-test
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_EQ(code_of(run_copy(mover, memory, m_host.address(), 100)), EIO);
    EXPECT_EQ(value_of(counters().refused_copies), 1u);
    const auto failed = mover.copy_now(memory, m_host.address(), 100);
    EXPECT_EQ(code_of(failed), EIO);
    EXPECT_THAT(text_of(failed), HasSubstr("cannot be mapped"));
    EXPECT_EQ(value_of(counters().refused_copies), 2u) << "once, though it was tried twice";
    EXPECT_TRUE(is_ok(mover.copy_now(memory, memory + kMiB, 100))) << "a copy within the card needs no host memory";
}

TEST_F(MoverFailure, staged_copy_whose_later_piece_fails_counts_as_no_copy) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "EIO"));
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_TRUE(is_ok(mover.copy_now(memory, m_host.address(), 32 * kMiB))) << "at the second try";
    const CardCounters &counted = counters().cards[card().slot()];
    EXPECT_NE(value_of(counted.failed_transfers), 0u);
    EXPECT_EQ(value_of(counted.copies[static_cast<std::size_t>(Path::staged_down)]), 1u);
}

TEST_F(MoverFailure, engine_that_does_not_start_is_started_at_the_next_copy) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#1=ENOMEM");
    Mover mover(cards());
    const std::uint64_t memory = device();
    const Error refused = refusal(mover, memory, m_host.address(), 100);
    EXPECT_EQ(refused.code, ENOMEM);
    EXPECT_THAT(refused.text, HasSubstr("ENOMEM"));
    EXPECT_TRUE(is_ok(run_copy(mover, memory, m_host.address(), 100))) << "the engine starts at the next copy";
}

TEST_F(MoverFailure, movers_of_many_threads_survive_a_reset) {
    set("SOFTGAUDI_FAULTS", at_submission(184, "reset"));
    Cards &all = cards();
    const std::uint64_t memory = device();
    value(start_engine(card()));
    std::atomic<unsigned> hung{0}, failed{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Mover mover(all);
            HostRange range(m_host.address(), m_host.size(), all.all().size());
            for (unsigned round = 0; round < 400; ++round) {
                Tally tally;
                const std::uint64_t at = t * 8 * kMiB;
                const auto posted = mover.post(
                    {memory + at, m_host.address(at), 20'000, round % 2 == 0 ? &range : nullptr, Tally::count, &tally});
                if (!posted) {
                    ++failed;
                    continue;
                }
                const bool ended = until([&] {
                    mover.progress();
                    return tally.ended == 1;
                });
                hung += ended ? 0 : 1;
                failed += tally.failed;
                failed += mover.copy_now(memory + at + kMiB, memory + at, 100) ? 0 : 1;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(hung.load(), 0u);
    EXPECT_GT(failed.load(), 0u);
}

} // namespace
