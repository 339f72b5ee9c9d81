// SPDX-License-Identifier: BSD-3-Clause
// Copies on a card that dies, and copies for which there is no way: an error and a sentence, and the others go on.
#include "engine.h"

#include "gaudi/mover.h"

#include <gmock/gmock.h>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class MoverFailure : public GaudiTest {
protected:
    static std::uint64_t device(std::size_t index = 0) {
        return value(card(index).arena().allocate({.length = 64 * kMiB}));
    }
    /// Posts and waits; the error of the end, or -1 when it was not even started.
    int copy(Mover &mover, std::uint64_t destination, std::uint64_t source, std::uint64_t length,
             HostRange *range = nullptr) {
        int error = -1;
        const auto done = [](void *user, int result) { *static_cast<int *>(user) = result; };
        if (mover.post({destination, source, length, range, done, &error}) != Mover::Posted::started)
            return -1;
        EXPECT_TRUE(until([&] {
            mover.progress();
            return error >= 0;
        }));
        return error;
    }

    const HostMemory m_host{32 * kMiB};
};

TEST_F(MoverFailure, staged_copies_end_with_an_error_when_the_card_is_reset) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset"));
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_EQ(copy(mover, memory, m_host.address(), 32 * kMiB), EIO);
    EXPECT_EQ(mover.outstanding(), 0u);
    EXPECT_EQ(copy(mover, memory, m_host.address(), 100), -1) << "later ones are refused";
    EXPECT_THAT(mover.problem(), AllOf(HasSubstr(card().bus_id()), HasSubstr("takes no more copies"),
                                       HasSubstr("hlthunk_command_submission")));
}

TEST_F(MoverFailure, direct_copies_end_with_an_error_when_the_card_is_lost) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "lose"));
    Mover mover(cards());
    const std::uint64_t memory = device();
    HostRange range(m_host.address(), m_host.size(), cards().all().size());
    EXPECT_EQ(copy(mover, m_host.address(), memory, kMiB, &range), EIO);
    EXPECT_EQ(copy(mover, m_host.address(), memory, kMiB, &range), -1);
    EXPECT_THAT(mover.problem(), HasSubstr("ENODEV"));
}

TEST_F(MoverFailure, blocking_copies_return_the_error_and_the_cause) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "reset"));
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_EQ(mover.copy_now(memory, m_host.address(), 100), 0);
    EXPECT_EQ(mover.copy_now(memory, m_host.address(), 100), EIO);
    EXPECT_THAT(mover.problem(), AllOf(HasSubstr("card " + card().bus_id() + ": a copy failed"),
                                       HasSubstr("hlthunk_command_submission")));
    EXPECT_EQ(mover.copy_now(memory, memory + kMiB, 100), EIO);
    EXPECT_THAT(mover.problem(), HasSubstr("takes no more copies"));
}

TEST_F(MoverFailure, a_copy_between_two_cards_fails_when_either_dies) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset", "", "@2")); // the server's card 2 is our second
    Mover mover(cards());
    const std::uint64_t alive = device(0), dying = device(1);
    EXPECT_EQ(copy(mover, dying, alive, 32 * kMiB), EIO);
    EXPECT_EQ(mover.outstanding(), 0u);
    EXPECT_EQ(copy(mover, dying, alive, kMiB), -1);
    EXPECT_EQ(copy(mover, alive, m_host.address(), kMiB), 0) << "the other card goes on";
    EXPECT_EQ(mover.copy_now(alive + 8 * kMiB, alive, kMiB), 0);
}

TEST_F(MoverFailure, other_users_of_a_dead_card_hear_of_it_too) {
    set("SOFTGAUDI_FAULTS", at_submission(4, "reset"));
    Mover mine(cards()), other(cards());
    const std::uint64_t memory = device();
    EXPECT_EQ(other.copy_now(memory, m_host.address(), 100), 0);
    EXPECT_EQ(copy(mine, memory, m_host.address(), 32 * kMiB), EIO);
    EXPECT_EQ(other.copy_now(memory, m_host.address(), 100), EIO);
    EXPECT_THAT(other.problem(), HasSubstr("takes no more copies"));
}

TEST_F(MoverFailure, where_there_is_nothing_to_stage_in_the_copy_fails_with_a_sentence) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#4+=ENOMEM"); // all but the ring's and the self-test's
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_EQ(copy(mover, memory, m_host.address(), 100), EIO);
    EXPECT_EQ(mover.copy_now(memory, m_host.address(), 100), EIO);
    EXPECT_THAT(mover.problem(), HasSubstr("cannot be mapped"));
    EXPECT_EQ(mover.copy_now(memory, memory + kMiB, 100), 0) << "what needs no host memory works";
}

TEST_F(MoverFailure, an_engine_that_does_not_start_fails_the_copy_with_a_sentence) {
    set("SOFTGAUDI_FAULTS", "host_memory_map#1=ENOMEM");
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_EQ(copy(mover, memory, m_host.address(), 100), -1) << "its engine does not start";
    EXPECT_THAT(mover.problem(), HasSubstr("ENOMEM"));
    EXPECT_EQ(copy(mover, memory, m_host.address(), 100), 0) << "the next time it does";
}

TEST_F(MoverFailure, movers_in_many_threads_survive_a_reset) {
    set("SOFTGAUDI_FAULTS", at_submission(184, "reset"));
    Cards &all = cards();
    const std::uint64_t memory = device();
    value(card().copier());
    std::atomic<unsigned> hung{0}, failed{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Mover mover(all);
            HostRange range(m_host.address(), m_host.size(), all.all().size());
            for (unsigned round = 0; round < 400; ++round) {
                int error = -1;
                const auto done = [](void *user, int result) { *static_cast<int *>(user) = result; };
                const std::uint64_t at = t * 8 * kMiB;
                const auto posted = mover.post(
                    {memory + at, m_host.address(at), 20'000, round % 2 == 0 ? &range : nullptr, done, &error});
                if (posted == Mover::Posted::failed) {
                    ++failed;
                    continue;
                }
                hung += until([&] {
                    mover.progress();
                    return error >= 0;
                })
                            ? 0
                            : 1;
                failed += error > 0 ? 1 : 0;
                failed += mover.copy_now(memory + at + kMiB, memory + at, 100) == 0 ? 0 : 1;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(hung.load(), 0u);
    EXPECT_GT(failed.load(), 0u);
}

} // namespace
