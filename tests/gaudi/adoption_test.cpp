// SPDX-License-Identifier: BSD-3-Clause
// A card that somebody else in the process has opened is shared, and let go of when they close it.
#include "framework_program.h"

#include "gaudi/adoption.h"
#include "gaudi/mover.h"
#include "gaudi/settings.h"
#include "thunk/fake_library.h"

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

class Adoption : public GaudiTest {
protected:
    static std::uint64_t opens() { return Counters(card())["opens"]; }
    static int copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
        return Mover(cards()).copy_now(destination, source, length);
    }
    const HostMemory m_host{kMiB};
};

TEST_F(Adoption, the_card_that_the_process_holds_is_shared_and_not_opened_again) {
    const Other other(card(3).bus_id());
    const Card &usual = *value(cards().usual());
    EXPECT_EQ(&usual, &card(3)) << "nobody wants memory elsewhere";
    EXPECT_TRUE(usual.adopted());
    const std::uint64_t address = value(card(3).arena().allocate({.length = kMiB}));
    const Bytes sent = pattern(kMiB, 1);
    m_host.write(0, sent);
    EXPECT_EQ(copy(address, m_host.address(), kMiB), 0);
    EXPECT_TRUE(Window(*cards().find(address)).read(address, kMiB) == sent);
    EXPECT_EQ(Counters(card(3))["opens"], 1u);
}

TEST_F(Adoption, other_cards_are_opened_as_ever) {
    const Other other(card(3).bus_id());
    value(card(2).open());
    EXPECT_FALSE(card(2).adopted());
    EXPECT_TRUE(Counters(card(2)).in_use());
}

TEST_F(Adoption, a_control_node_is_not_a_card_that_is_held) {
    const int control = Other::call().open_control(0, nullptr);
    ASSERT_GE(control, 0);
    for (const auto &card : cards().all()) {
        EXPECT_EQ(find_descriptor(cards().library(), card->bus_id()), -1);
        EXPECT_FALSE(card->if_held());
    }
    Other::call().close(control);
}

TEST_F(Adoption, nothing_is_shared_of_what_is_not_held) {
    EXPECT_FALSE(card().if_held());
    EXPECT_EQ(opens(), 0u) << "asking opens nothing";
    EXPECT_EQ(value(cards().of_descriptor(0)), nullptr);
    EXPECT_EQ(value(cards().of_descriptor(-1)), nullptr);
    EXPECT_EQ(value(cards().of_descriptor(1000)), nullptr);
}

TEST(OtherDescriptors, are_looked_at_and_never_called) {
    const thunk::FakeLibrary fake(FAKE_FULL);
    const std::string its = value(fake.device().bus_id());
    const int asked = fake.calls("get_pci_bus_id_from_fd");
    EXPECT_FALSE(value(is_compute_node(*fake, "0000:ff:1f.7", fake.descriptor))) << "another card's";
    fake.reply("get_pci_bus_id_from_fd", -1, ENODEV);
    EXPECT_FALSE(value(is_compute_node(*fake, its, fake.descriptor))) << "no card's";
    EXPECT_EQ(fake.calls("get_pci_bus_id_from_fd"), asked + 2);
    EXPECT_EQ(fake.calls("wait_for_cs"), 0);
    EXPECT_TRUE(value(is_compute_node(*fake, its, fake.descriptor)));
    EXPECT_EQ(fake.calls("wait_for_cs"), 1) << "the only call, on that card's own";
}

TEST(OtherDescriptors, that_cannot_be_looked_at_now_are_not_taken_for_none) {
    const thunk::FakeLibrary fake(FAKE_FULL); // to which every descriptor is the card's
    const std::string its = value(fake.device().bus_id());
    EXPECT_GE(find_descriptor(*fake, its).value_or(-1), 0);
    EXPECT_EQ(find_descriptor(*fake, "0000:ff:1f.7"), -1);
    fake.reply("get_pci_bus_id_from_fd", -1, EMFILE);
    EXPECT_FALSE(find_descriptor(*fake, "0000:ff:1f.7"));
}

TEST_F(Adoption, memory_of_a_shared_card_is_not_hoarded) {
    const Other other(card().bus_id());
    const std::uint64_t address = value(card().arena().allocate({.length = kMiB}));
    ASSERT_TRUE(card().arena().free(address));
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

TEST_F(Adoption, a_card_is_free_once_its_owner_has_closed_it) {
    Other other(card().bus_id());
    const std::uint64_t address = value(card().arena().allocate({.length = kMiB}));
    HostRange range(m_host.address(), m_host.size(), cards().all().size());
    Mover mover(cards());
    Tally tally;
    ASSERT_EQ(mover.post({address, m_host.address(), kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    card().closing(other.fd()); // with a copy under way
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_FALSE(card().is_open());
    EXPECT_EQ(card().copier_if_started(), nullptr);
    EXPECT_FALSE(card().if_held()) << "not while they are at it";
    const int fd = other.fd();
    other.close();
    card().closed(fd);
    EXPECT_FALSE(Counters(card()).in_use());
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
    ASSERT_TRUE(until([&] {
        mover.progress();
        return mover.outstanding() == 0;
    }));
    EXPECT_EQ(tally.ended, 1u);

    // And from now on it is ours.
    const std::uint64_t again = value(card().arena().allocate({.length = kMiB}));
    EXPECT_FALSE(card().adopted());
    ASSERT_EQ(mover.post({again, m_host.address(), kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    ASSERT_TRUE(until([&] {
        mover.progress();
        return mover.outstanding() == 0;
    }));
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_EQ(opens(), 2u);
}

TEST_F(Adoption, lives_that_are_over_hold_a_few_descriptors_at_most) {
    const auto descriptors = [] {
        const std::filesystem::directory_iterator all("/proc/self/fd");
        return std::distance(begin(all), end(all));
    };
    const auto live = [] {
        Other other(card().bus_id());
        value(card().arena().allocate({.length = kMiB}));
        const int fd = other.fd();
        card().closing(fd);
        other.close();
        card().closed(fd);
    };
    for (unsigned life = 0; life < 10; ++life)
        live();
    const auto before = descriptors();
    for (unsigned life = 0; life < 10; ++life)
        live();
    EXPECT_EQ(descriptors(), before);
}

TEST_F(Adoption, another_descriptor_of_theirs_keeps_it) {
    Other other(card().bus_id());
    value(card().open());
    const thunk::Fd second(fcntl(other.fd(), F_DUPFD_CLOEXEC, 0));
    EXPECT_EQ(card().closing(other.fd()), Card::Kept::by_them);
    EXPECT_TRUE(card().is_open());
    const int fd = other.fd();
    other.close();
    card().closed(fd);
    EXPECT_TRUE(card().is_open());
    card().closing(second.get());
    EXPECT_FALSE(card().is_open());
}

TEST_F(Adoption, a_card_of_our_own_is_nobodys_to_close) {
    const int fd = value(card().open()).fd();
    EXPECT_EQ(card().closing(fd), Card::Kept::by_us);
    EXPECT_TRUE(card().is_open());
    card().closed(fd);
}

TEST_F(Adoption, nothing_is_copied_beside_others_before_it_was_seen_to_arrive) {
    set("SOFTGAUDI_FAULTS", "command_submission=skip"); // ends, but moves nothing
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    Mover mover(cards());
    EXPECT_NE(mover.copy_now(memory.address, m_host.address(), 100), 0);
    EXPECT_THAT(mover.problem(), HasSubstr("copies beside them do not arrive"));
    const std::uint64_t tried = Counters(card())["submissions"];
    EXPECT_NE(mover.copy_now(memory.address, m_host.address(), 100), 0);
    EXPECT_EQ(Counters(card())["submissions"], tried) << "and it is tried once";
    EXPECT_TRUE(cards().look_up(memory.address)->exportable()) << "NICs reach it all the same";
}

TEST_F(Adoption, words_that_come_too_early_do_not_forbid_copies) {
    set("SOFTGAUDI_FAULTS", "command_submission#1=skip");
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    EXPECT_EQ(copy(memory.address, m_host.address(), 100), 0);
    EXPECT_FALSE(value(card().copier())->uses_words());
}

TEST_F(Adoption, a_card_that_refuses_submissions_beside_others_is_theirs_alone) {
    set("SOFTGAUDI_FAULTS", "command_submission=EINVAL");
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    Mover mover(cards());
    EXPECT_NE(mover.copy_now(memory.address, m_host.address(), 100), 0);
    EXPECT_THAT(mover.problem(), HasSubstr("copies beside them fail"));
}

TEST_F(Adoption, with_completion_by_the_driver_it_is_tried_too) {
    settings().completion_by_driver = true;
    set("SOFTGAUDI_FAULTS", "command_submission=skip");
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    EXPECT_NE(copy(memory.address, m_host.address(), 100), 0);
}

TEST_F(Adoption, a_reset_of_a_shared_card_ends_copies_and_is_named) {
    set("SOFTGAUDI_FAULTS", at_submission(2, "reset"));
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    Mover mover(cards());
    ASSERT_EQ(mover.copy_now(memory.address, m_host.address(), 100), 0);
    EXPECT_NE(mover.copy_now(memory.address, m_host.address(), 100), 0);
    EXPECT_NE(mover.copy_now(memory.address, m_host.address(), 100), 0);
    EXPECT_THAT(mover.problem(), HasSubstr("the card was reset"));
}

TEST_F(Adoption, memory_that_another_card_is_about_to_write_to_is_waited_for) {
    Other other(card().bus_id());
    const int fd = other.fd();
    const std::uint64_t address = value(card().arena().allocate({.length = kMiB}));
    HostRange *window = cards().find(address)->hold_window(); // as a copy from another card does
    ASSERT_NE(window, nullptr);
    std::atomic<bool> over{false};
    std::thread closing([&] {
        card().closing(fd);
        over = true;
    });
    EXPECT_TRUE(until([&] { return cards().find(address) == nullptr; }));
    for (unsigned i = 0; i < 1000; ++i)
        std::this_thread::yield();
    EXPECT_FALSE(over);
    EXPECT_TRUE(window->contains(address, kMiB));
    window->release();
    closing.join();
    other.close();
    card().closed(fd);
    EXPECT_FALSE(Counters(card()).in_use());
}

TEST_F(Adoption, a_copy_that_ends_when_its_registration_is_long_gone_touches_nothing_of_it) {
    set("SOFTGAUDI_FAULTS", at_submission(1, "hang"));
    Other other(card().bus_id());
    const int fd = other.fd();
    const std::uint64_t address = value(card().arena().allocate({.length = kMiB}));
    Mover mover(cards());
    Tally tally;
    ::testing::internal::CaptureStderr();
    {
        HostRange range(m_host.address(), m_host.size(), cards().all().size());
        ASSERT_EQ(mover.post({m_host.address(), address, kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    } // which waits for it for seconds
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("a copy does not end, so its host memory stays pinned"));
    EXPECT_EQ(tally.ended, 0u);
    card().closing(fd); // the engine gives it up
    other.close();
    card().closed(fd);
    mover.progress();
    EXPECT_EQ(tally.failed, 1u);
    EXPECT_EQ(mover.outstanding(), 0u);
}

TEST_F(Adoption, what_is_copied_after_the_close_fails_with_the_reason) {
    Other other(card().bus_id());
    const Other::Memory memory = other.allocate(kMiB);
    Mover mover(cards());
    ASSERT_EQ(mover.copy_now(memory.address, m_host.address(), 100), 0);
    card().closing(other.fd());
    const int fd = other.fd();
    other.close();
    card().closed(fd);
    EXPECT_NE(mover.copy_now(memory.address, m_host.address(), 100), 0);
    EXPECT_THAT(mover.problem(), HasSubstr("in no mapping"));
}

} // namespace
