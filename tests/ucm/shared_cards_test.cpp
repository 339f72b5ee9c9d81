// SPDX-License-Identifier: BSD-3-Clause
// A program opens and closes cards through the hooks: cards that are open already are handed over, and the last close
// releases them.
#include "bookkeeping_fixture.h"

#include "gaudi/mover.h"
#include "gaudi/settings.h"
#include "thunk/reported.h"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

using CardClose = BookkeepingTest;
using HandOver = BookkeepingTest;
using UnseenClose = BookkeepingTest;

TEST_F(CardClose, removes_all_mappings_and_notifies_listeners) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    ASSERT_NE(cards().find(address), nullptr);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_EQ(m_listener.unmapped_count(), 1u);
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_FALSE(Counters(card()).in_use());
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_NE(m_book.map(again, m_book.alloc(again, kMiB, 0, false, false), 0), 0u);
    EXPECT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_book.close(again), 0);
}

bool s_open_at_close = false;

TEST_F(CardClose, own_duplicate_is_closed_first) {
    RealCalls calls = real_calls();
    calls.close = [](int fd) {
        s_open_at_close = card().is_open();
        return Other::call().close(fd);
    };
    Bookkeeping book(cards(), calls);
    const int fd = open();
    ASSERT_NE(book.map(fd, book.alloc(fd, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(card().is_open());
    s_open_at_close = true;
    EXPECT_EQ(book.close(fd), 0);
    EXPECT_FALSE(s_open_at_close);
}

TEST_F(CardClose, second_descriptor_keeps_the_mappings) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_NE(cards().find(address), nullptr);
    EXPECT_EQ(m_book.unmap(second, address), 0);
    EXPECT_EQ(m_book.close(second), 0);
}

TEST_F(HandOver, program_shares_an_own_card) {
    const std::uint64_t own = value(card().arena().allocate({.length = kMiB}));
    const int fd = open();
    ASSERT_GE(fd, 0) << "the library alone would return EBUSY";
    EXPECT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str()), -EBUSY);
    const std::uint64_t foreign = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    ASSERT_NE(foreign, 0u);
    const HostMemory host(kMiB);
    EXPECT_EQ(Mover(cards()).copy_now(foreign, own, kMiB), 0);
    const unsigned before = m_listener.unmapped_count();
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_NE(cards().find(own), nullptr) << "the card stays open";
    EXPECT_EQ(Mover(cards()).copy_now(host.address(), own, kMiB), 0);
    EXPECT_EQ(cards().look_up(foreign), nullptr) << "the driver too would remove it with the descriptor";
    EXPECT_EQ(m_listener.unmapped_count(), before + 1);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], card().block_size());
}

class SlowCard : public BookkeepingTest {
protected:
    SlowCard() : BookkeepingTest({}, "down:0.1") {} // 16 MiB take 0.17 s

    static inline bool s_busy_at_unmap = true;
};

TEST_F(SlowCard, close_waits_for_copies_before_unmapping) {
    RealCalls calls = real_calls();
    calls.memory_unmap = [](int fd, std::uint64_t address) {
        s_busy_at_unmap = card().copier_if_started()->busy();
        return Other::call().memory_unmap(fd, address);
    };
    Bookkeeping book(cards(), calls);
    value(card().open());
    const int fd = book.open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str());
    const HostMemory host(16 * kMiB);
    const std::uint64_t foreign = book.map(fd, book.alloc(fd, host.size(), 0, false, false), 0);
    HostRange range(host.address(), host.size(), cards().all().size());
    Mover mover(cards());
    Tally tally;
    ASSERT_EQ(mover.post({foreign, host.address(), host.size(), &range, Tally::count, &tally}), Mover::Posted::started);
    EXPECT_EQ(book.close(fd), 0);
    EXPECT_FALSE(s_busy_at_unmap);
    mover.progress();
    EXPECT_EQ(tally.ended, 1u);
    EXPECT_EQ(tally.failed, 0u);
}

TEST_F(HandOver, mappings_of_an_unseen_close_end_with_the_next_open) {
    value(card().arena().allocate({.length = kMiB}));
    const int unseen = open();
    const std::uint64_t foreign = m_book.map(unseen, m_book.alloc(unseen, kMiB, 0, false, false), 0);
    ASSERT_NE(cards().find(foreign), nullptr);
    ASSERT_EQ(::close(unseen), 0);
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_EQ(cards().look_up(foreign), nullptr);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], card().block_size());
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(HandOver, free_blocks_return_to_the_driver) {
    const auto use = [] { return card().arena().free(value(card().arena().allocate({.length = kMiB}))); };
    ASSERT_TRUE(use());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], card().block_size()) << "the arena keeps a free block";
    const int fd = open();
    ASSERT_GE(fd, 0);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u) << "the program may need the memory";
    ASSERT_TRUE(use());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_EQ(m_book.close(fd), 0);
    ASSERT_TRUE(use());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], card().block_size());
}

class LostCopies : public BookkeepingTest {
protected:
    LostCopies() : BookkeepingTest("command_submission=skip") {}
};

TEST_F(LostCopies, refuse_the_hand_over) {
    value(card().open());
    const thunk::Reported reported;
    EXPECT_EQ(open(), -EBUSY) << "the result of the library";
    ASSERT_EQ(reported.errors().size(), 1u);
    EXPECT_THAT(reported.errors()[0].text, HasSubstr("cannot be shared with the program that opens it"));
    EXPECT_THAT(reported.errors()[0].text, HasSubstr("copies do not arrive"));
}

class FailedEngine : public BookkeepingTest {
protected:
    FailedEngine() : BookkeepingTest(at_submission(1, "reset")) {}
};

TEST_F(FailedEngine, refuses_the_hand_over) {
    const HostMemory host(kMiB);
    const std::uint64_t own = value(card().arena().allocate({.length = kMiB}));
    ASSERT_NE(Mover(cards()).copy_now(own, host.address(), 100), 0);
    const thunk::Reported reported;
    EXPECT_LT(open(), 0);
    ASSERT_EQ(reported.errors().size(), 1u);
    EXPECT_THAT(reported.errors()[0].text, HasSubstr("reset"));
}

class UntestedEngine : public BookkeepingTest {
protected:
    UntestedEngine() : BookkeepingTest("device_memory_alloc#1=ENOMEM") {}
};

TEST_F(UntestedEngine, copies_but_refuses_the_hand_over) {
    const HostMemory host(kMiB);
    ASSERT_FALSE(value(card().copier())->proven());
    const std::uint64_t own = value(card().arena().allocate({.length = kMiB}));
    EXPECT_EQ(Mover(cards()).copy_now(own, host.address(), kMiB), 0);
    const thunk::Reported reported;
    EXPECT_EQ(open(), -EBUSY);
    ASSERT_EQ(reported.errors().size(), 1u);
    EXPECT_THAT(reported.errors()[0].text, HasSubstr("could not be tried"));
}

TEST_F(HandOver, runs_the_self_test_first) {
    settings().completion_by_driver = true;
    value(card().open());
    const int fd = open();
    ASSERT_GE(fd, 0);
    EXPECT_EQ(Counters(card())["submissions"], kOfTheTrial);
    EXPECT_EQ(m_book.close(fd), 0);
}

TEST_F(HandOver, open_of_any_card_shares_each_own_card_once) {
    for (const auto &each : cards().all())
        value(each->arena().allocate({.length = kMiB}));
    EXPECT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
    EXPECT_LT(m_book.open(HLTHUNK_DEVICE_GAUDI3, nullptr), 0) << "the server has no Gaudi3";
    std::vector<int> fds = {m_book.open_by_module_id(card(1).module_id())};
    ASSERT_GE(fds[0], 0);
    EXPECT_EQ(value(cards().of_descriptor(fds[0])), &card(1));
    EXPECT_EQ(m_book.open_by_module_id(card(1).module_id()), -EBUSY) << "the program has it already";
    fds.push_back(m_book.open(HLTHUNK_DEVICE_DONT_CARE, card(2).bus_id().substr(5).c_str()));
    EXPECT_EQ(value(cards().of_descriptor(fds.back())), &card(2)) << "the library accepts a bus id without its domain";
    while (fds.size() <= cards().all().size() && fds.back() >= 0)
        fds.push_back(m_book.open(HLTHUNK_DEVICE_DONT_CARE, nullptr));
    EXPECT_EQ(fds.size(), cards().all().size() + 1) << "each card is handed over once";
    EXPECT_EQ(fds.back(), -1);
    fds.pop_back();
    for (const int fd : fds) {
        EXPECT_NE(m_book.alloc(fd, kMiB, 0, false, false), 0u);
        EXPECT_EQ(m_book.close(fd), 0);
    }
}

TEST_F(UnseenClose, card_opens_again) {
    const int unseen = open();
    ASSERT_GE(unseen, 0);
    ASSERT_NE(m_book.map(unseen, m_book.alloc(unseen, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(card().adopted());
    ASSERT_EQ(::close(unseen), 0); // only the own duplicate holds the card now
    EXPECT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str()), -EBUSY);
    const int again = open();
    EXPECT_GE(again, 0);
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(UnseenClose, card_opens_before_an_own_one_is_handed_over) {
    const int unseen = open(0);
    ASSERT_NE(m_book.map(unseen, m_book.alloc(unseen, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(card(0).adopted());
    for (std::size_t index = 1; index < cards().all().size(); ++index)
        value(card(index).arena().allocate({.length = kMiB}));
    ASSERT_EQ(::close(unseen), 0);
    const int any = m_book.open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    EXPECT_EQ(value(cards().of_descriptor(any)), &card(0));
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(m_book.close(any), 0);
}

TEST_F(UnseenClose, deferred_unmap_ends_with_its_session) {
    const int unseen = open();
    const std::uint64_t handle = m_book.alloc(unseen, kMiB, 0, false, false);
    const std::uint64_t address = m_book.map(unseen, handle, 0);
    {
        const thunk::Fd registered = value(cards().find(address)->dmabuf()); // as an HCA holds it
        EXPECT_EQ(m_book.unmap(unseen, address), 0);
        EXPECT_EQ(m_book.free(unseen, handle), 0);
        ASSERT_EQ(m_book.lingering(), 1u);
    }
    ASSERT_EQ(::close(unseen), 0);
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_EQ(m_book.lingering(), 0u);
    ASSERT_EQ(m_book.map(again, m_book.alloc(again, kMiB, 0, false, false), 0), address);
    EXPECT_NE(m_book.alloc(again, kMiB, 0, false, false), 0u); // retries deferred unmaps
    const HostMemory host(kMiB);
    EXPECT_EQ(Mover(cards()).copy_now(address, host.address(), kMiB), 0);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(CardClose, descriptor_shortage_keeps_the_card_until_the_next_open) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlim_t usual = std::exchange(limit.rlim_cur, 3);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_NE(cards().find(address), nullptr) << "unknown whether it was the last descriptor";
    EXPECT_EQ(m_book.close(second), 0);
    limit.rlim_cur = usual;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(m_listener.closed_count(), 0u);
    const int again = open();
    EXPECT_GE(again, 0) << "it was the last one";
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_EQ(m_book.close(again), 0);
}

class ReusedDescriptor : public BookkeepingTest {
protected:
    /// Expects that a mapping by `fd` is on the second card.
    void expect_second_card(int fd) {
        const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
        const Region *region = cards().look_up(address);
        ASSERT_NE(region, nullptr);
        EXPECT_EQ(&region->card(), &card(1));
        EXPECT_EQ(m_book.unmap(fd, address), 0);
        EXPECT_EQ(cards().look_up(address), nullptr);
        EXPECT_EQ(m_book.close(fd), 0);
    }
    void make_known(int fd) { EXPECT_EQ(m_book.free(fd, m_book.alloc(fd, kMiB, 0, false, false)), 0); }
};

TEST_F(ReusedDescriptor, opened_unseen_maps_on_the_second_card) {
    const int fd = Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card(0).bus_id().c_str());
    make_known(fd);
    ASSERT_EQ(m_book.close(fd), 0);
    ASSERT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card(1).bus_id().c_str()), fd);
    expect_second_card(fd);
}

TEST_F(ReusedDescriptor, closed_unseen_maps_on_the_second_card) {
    const int fd = open(0);
    make_known(fd);
    ASSERT_EQ(Other::call().close(fd), 0);
    ASSERT_EQ(open(1), fd);
    expect_second_card(fd);
}

class CardInReset : public BookkeepingTest {
protected:
    CardInReset() : BookkeepingTest(at_submission(2, "reset")) {}
};

TEST_F(CardInReset, last_close_releases_it) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    const HostMemory host(kMiB);
    Mover mover(cards());
    ASSERT_EQ(mover.copy_now(address, host.address(), 100), 0);
    ASSERT_NE(mover.copy_now(address, host.address(), 100), 0);
    ASSERT_EQ(Counters(card())["hard_resets"], 1u);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_EQ(m_listener.closed_count(), 0u) << "the program has a second descriptor";
    EXPECT_EQ(m_book.close(second), 0);
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_FALSE(Counters(card()).in_use()) << "the driver ends a reset only when all descriptors are closed";
    const int again = open();
    ASSERT_GE(again, 0);
    const std::uint64_t next = m_book.map(again, m_book.alloc(again, kMiB, 0, false, false), 0);
    EXPECT_EQ(mover.copy_now(next, host.address(), 100), 0) << mover.problem();
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(CardClose, other_descriptors_are_ignored) {
    const thunk::Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(m_book.unmap(file.get(), 4096), Other::call().memory_unmap(file.get(), 4096));
    const int control = Other::call().open_control(0, nullptr);
    EXPECT_EQ(m_book.close(control), 0);
    EXPECT_EQ(m_listener.closed_count(), 0u);
}

} // namespace
