// SPDX-License-Identifier: BSD-3-Clause
// A card that a framework in the process has opened is adopted, and released when the framework closes it.
#include "framework_program.h"

#include "gaudi/card/adoption.h"
#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"

#include <gmock/gmock.h>

#include <fcntl.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class AdoptionTest : public GaudiTest {
protected:
    static std::uint64_t opens() { return Counters(card())["opens"]; }
    static Result<void> copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
        return Mover(cards()).copy_now(destination, source, length);
    }
    static bool finish(Mover &mover) {
        return until([&] {
            mover.progress();
            return mover.outstanding() == 0;
        });
    }
    const HostBuffer m_host{kMiB};
};

using AdoptedCard = AdoptionTest;
using AdoptedClose = AdoptionTest;
using AdoptedCopy = AdoptionTest;

TEST_F(AdoptedCard, is_the_default_and_is_not_opened_again) {
    const FrameworkProgram framework(card(3).bus_id());
    const Card &usual = *value(cards().choose_default());
    EXPECT_EQ(&usual, &card(3)) << "the process uses no other card";
    EXPECT_TRUE(is_adopted(usual));
    const std::uint64_t address = value(allocate(card(3), {.length = kMiB}));
    const Bytes sent = pattern(kMiB, 1);
    m_host.write(0, sent);
    EXPECT_TRUE(is_ok(copy(address, m_host.address(), kMiB)));
    EXPECT_TRUE(Window(*find_region(address)).read(address, kMiB) == sent);
    EXPECT_EQ(Counters(card(3))["opens"], 1u);
}

TEST_F(AdoptedCard, other_cards_are_opened) {
    const FrameworkProgram framework(card(3).bus_id());
    value(card(2).open());
    EXPECT_FALSE(is_adopted(card(2)));
    EXPECT_TRUE(Counters(card(2)).in_use());
}

TEST_F(AdoptedCard, empty_block_is_not_kept) {
    const FrameworkProgram framework(card().bus_id());
    const std::uint64_t address = value(allocate(card(), {.length = kMiB}));
    ASSERT_TRUE(free_on(card(), address));
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

// ---- descriptors

class DescriptorSearch : public AdoptionTest {};

TEST_F(DescriptorSearch, control_node_does_not_hold_a_card) {
    const int control = FrameworkProgram::call().open_control(0, nullptr);
    ASSERT_GE(control, 0);
    for (const auto &card : cards().all()) {
        EXPECT_EQ(find_descriptor(*card), -1);
        EXPECT_FALSE(card->find_session());
    }
    FrameworkProgram::call().close(control);
}

TEST_F(DescriptorSearch, card_that_is_not_held_is_not_opened) {
    EXPECT_FALSE(card().find_session());
    EXPECT_EQ(opens(), 0u);
    EXPECT_EQ(value(cards().of_descriptor(0)), nullptr);
    EXPECT_EQ(value(cards().of_descriptor(-1)), nullptr);
    EXPECT_EQ(value(cards().of_descriptor(1000)), nullptr);
}

// ---- the framework closes the card

TEST_F(AdoptedClose, card_is_released_with_copies_under_way_and_opened_again) {
    FrameworkProgram framework(card().bus_id());
    const std::uint64_t address = value(allocate(card(), {.length = kMiB}));
    HostRange range(m_host.address(), m_host.size(), cards().all().size());
    Mover mover(cards());
    Tally tally;
    ASSERT_EQ(mover.post({address, m_host.address(), kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    const int fd = framework.fd();
    EXPECT_EQ(card().before_close(fd), Card::CloseResult::released);
    EXPECT_EQ(find_region(address), nullptr);
    EXPECT_FALSE(card().is_open());
    EXPECT_EQ(started_engine(card()), nullptr);
    EXPECT_FALSE(card().find_session()) << "nothing is adopted through a descriptor that is being closed";
    framework.close();
    card().after_close(fd);
    EXPECT_FALSE(Counters(card()).in_use());
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(tally.ended, 1u);

    const std::uint64_t again = value(allocate(card(), {.length = kMiB}));
    EXPECT_FALSE(is_adopted(card()));
    ASSERT_EQ(mover.post({again, m_host.address(), kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_EQ(opens(), 2u);
}

TEST_F(AdoptedClose, ended_sessions_hold_a_few_descriptors_at_most) {
    const auto descriptors = [] {
        const std::filesystem::directory_iterator all("/proc/self/fd");
        return std::distance(begin(all), end(all));
    };
    const auto run_sessions = [] {
        for (unsigned session = 0; session < 10; ++session) {
            FrameworkProgram framework(card().bus_id());
            value(allocate(card(), {.length = kMiB}));
            framework.close_hooked(card());
        }
    };
    run_sessions();
    const auto before = descriptors();
    run_sessions();
    EXPECT_EQ(descriptors(), before);
}

TEST_F(AdoptedClose, second_descriptor_of_the_framework_keeps_the_session) {
    FrameworkProgram framework(card().bus_id());
    value(card().open());
    const thunk::Fd second(fcntl(framework.fd(), F_DUPFD_CLOEXEC, 0));
    EXPECT_EQ(card().before_close(framework.fd()), Card::CloseResult::owner_still_holds);
    EXPECT_TRUE(card().is_open());
    const int fd = framework.fd();
    framework.close();
    card().after_close(fd);
    EXPECT_TRUE(card().is_open());
    EXPECT_EQ(card().before_close(second.get()), Card::CloseResult::released);
    EXPECT_FALSE(card().is_open());
}

TEST_F(AdoptedClose, own_card_stays_open) {
    const int fd = value(card().open())->device().fd();
    EXPECT_EQ(card().before_close(fd), Card::CloseResult::kept_by_us);
    EXPECT_TRUE(card().is_open());
    card().after_close(fd);
}

TEST_F(AdoptedClose, waits_for_memory_that_another_card_is_about_to_write_to) {
    FrameworkProgram framework(card().bus_id());
    const std::uint64_t address = value(allocate(card(), {.length = kMiB}));
    HostRange *import = find_region(address)->hold_import(cards().all().size()); // as a copy from another card does
    ASSERT_NE(import, nullptr);
    std::atomic<bool> closed{false};
    std::thread closing([&] {
        framework.close_hooked(card());
        closed = true;
    });
    EXPECT_TRUE(until([&] { return find_region(address) == nullptr; }));
    for (unsigned i = 0; i < 1000; ++i)
        std::this_thread::yield();
    EXPECT_FALSE(closed);
    EXPECT_TRUE(import->contains(address, kMiB));
    import->release();
    closing.join();
    EXPECT_FALSE(Counters(card()).in_use());
}

TEST_F(AdoptedClose, copy_that_outlives_its_registration_fails_without_touching_it) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "hang"));
    FrameworkProgram framework(card().bus_id());
    const std::uint64_t address = value(allocate(card(), {.length = kMiB}));
    Mover mover(cards());
    Tally tally;
    ::testing::internal::CaptureStderr();
    {
        HostRange range(m_host.address(), m_host.size(), cards().all().size());
        ASSERT_EQ(mover.post({m_host.address(), address, kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    } // the range waits for the copy, bounded
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("a copy does not end, so its host memory stays pinned"));
    EXPECT_EQ(tally.ended, 0u);
    framework.close_hooked(card()); // the engine abandons the copy
    mover.progress();
    EXPECT_EQ(tally.failed, 1u);
    EXPECT_EQ(mover.outstanding(), 0u);
}

TEST_F(AdoptedClose, later_copy_fails_with_the_reason) {
    FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(memory.address, m_host.address(), 100)));
    framework.close_hooked(card());
    const auto refused = mover.copy_now(memory.address, m_host.address(), 100);
    EXPECT_EQ(code_of(refused), EINVAL);
    EXPECT_THAT(text_of(refused), HasSubstr("in no mapping"));
}

// ---- copies beside the framework

TEST_F(AdoptedCopy, refused_where_the_self_test_sees_nothing_arrive) {
    set("SOFTGAUDI_FAULTS", "command_submission=skip"); // ends, but moves nothing
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    Mover mover(cards());
    const auto refused = mover.copy_now(memory.address, m_host.address(), 100);
    EXPECT_EQ(code_of(refused), ENOTSUP);
    EXPECT_THAT(text_of(refused), HasSubstr("the DMA self-test failed"));
    EXPECT_THAT(text_of(refused), HasSubstr("copies do not arrive"));
    const std::uint64_t submissions = Counters(card())["submissions"];
    EXPECT_FALSE(mover.copy_now(memory.address, m_host.address(), 100));
    EXPECT_EQ(Counters(card())["submissions"], submissions) << "the self-test runs only once";
    EXPECT_TRUE(look_up(memory.address)->exportable()) << "NICs still reach the memory";
}

TEST_F(AdoptedCopy, refused_where_the_self_test_sees_nothing_arrive_by_the_driver) {
    change_settings([&](Settings &settings) { settings.completion = CompletionMode::driver; });
    set("SOFTGAUDI_FAULTS", "command_submission=skip");
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    EXPECT_EQ(code_of(copy(memory.address, m_host.address(), 100)), ENOTSUP);
}

TEST_F(AdoptedCopy, refused_where_the_driver_refuses_the_self_test) {
    set("SOFTGAUDI_FAULTS", "command_submission=EINVAL");
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    const auto refused = copy(memory.address, m_host.address(), 100);
    EXPECT_EQ(code_of(refused), ENOTSUP);
    EXPECT_THAT(text_of(refused), HasSubstr("the DMA self-test failed"));
    EXPECT_THAT(text_of(refused), HasSubstr("hlthunk_command_submission"));
}

TEST_F(AdoptedCopy, succeeds_by_the_driver_where_a_completion_flag_comes_too_early) {
    set("SOFTGAUDI_FAULTS", "command_submission#1=skip");
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    EXPECT_TRUE(is_ok(copy(memory.address, m_host.address(), 100)));
    EXPECT_FALSE(uses_completion_flags(*value(start_engine(card()))));
}

TEST_F(AdoptedCopy, fails_after_a_reset_and_names_it) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "reset"));
    FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(memory.address, m_host.address(), 100)));
    EXPECT_FALSE(mover.copy_now(memory.address, m_host.address(), 100));
    const auto refused = mover.copy_now(memory.address, m_host.address(), 100);
    EXPECT_EQ(code_of(refused), EIO);
    EXPECT_THAT(text_of(refused), HasSubstr("the card was reset"));
    const CardCounters &counted = value(card().open())->counters();
    EXPECT_EQ(value_of(counted.resets), 0u);
    framework.close_hooked(card());
    EXPECT_EQ(value_of(counted.resets), 1u) << "when the session ends";
}

} // namespace
