// SPDX-License-Identifier: BSD-3-Clause
// A program opens and closes cards through the hooks: own cards without live memory are handed over, and the last close
// releases them.
#include "hooked_calls_fixture.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"
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

using CardClose = HookedCallsTest;
using HandOver = HookedCallsTest;
using UnseenClose = HookedCallsTest;

TEST_F(CardClose, removes_all_mappings_and_notifies_listeners) {
    const int fd = open();
    const std::uint64_t address = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    ASSERT_NE(find_region(address), nullptr);
    EXPECT_EQ(m_calls.close(fd), 0);
    EXPECT_EQ(find_region(address), nullptr);
    EXPECT_EQ(m_listener.unmapped_count(), 1u);
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_FALSE(Counters(card()).in_use());
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_NE(m_calls.map(again, m_calls.alloc(again, kMiB, 0, false, false), 0), 0u);
    EXPECT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_calls.close(again), 0);
}

bool s_open_at_close = false;

TEST_F(CardClose, own_duplicate_is_closed_first) {
    RealCalls calls = real_calls();
    calls.close = [](int fd) {
        s_open_at_close = card().is_open();
        return FrameworkProgram::call().close(fd);
    };
    HookedCalls hooked(cards(), calls);
    const int fd = open();
    ASSERT_NE(hooked.map(fd, hooked.alloc(fd, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(card().is_open());
    s_open_at_close = true;
    EXPECT_EQ(hooked.close(fd), 0);
    EXPECT_FALSE(s_open_at_close);
}

TEST_F(CardClose, second_descriptor_keeps_the_mappings) {
    const int fd = open();
    const std::uint64_t address = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    EXPECT_EQ(m_calls.close(fd), 0);
    EXPECT_NE(find_region(address), nullptr);
    EXPECT_EQ(m_calls.unmap(second, address), 0);
    EXPECT_EQ(m_calls.close(second), 0);
}

TEST_F(HandOver, program_gets_an_own_card_and_copies_go_on_there) {
    const std::uint64_t own = value(allocate(card(), {.length = kMiB}));
    const HostBuffer host(2 * kMiB);
    const Bytes sent = pattern(kMiB, 5);
    host.write(0, sent);
    ASSERT_TRUE(is_ok(Mover(cards()).copy_now(own, host.address(), kMiB)));
    ASSERT_TRUE(free_on(card(), own));
    const int fd = open();
    ASSERT_GE(fd, 0) << "the library alone returns EBUSY";
    EXPECT_EQ(FrameworkProgram::call().open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str()), -EBUSY);
    EXPECT_EQ(open(), -EBUSY) << "the program has the card already";
    EXPECT_NE(card().state(), Card::State::own);
    const std::uint64_t foreign = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    ASSERT_NE(foreign, 0u);
    EXPECT_TRUE(is_adopted(card()));
    const std::uint64_t beside = value(allocate(card(), {.length = kMiB}));
    Mover mover(cards());
    EXPECT_TRUE(is_ok(mover.copy_now(beside, host.address(), kMiB)));
    EXPECT_TRUE(is_ok(mover.copy_now(foreign, beside, kMiB)));
    EXPECT_TRUE(is_ok(mover.copy_now(host.address(kMiB), foreign, kMiB)));
    EXPECT_TRUE(host.read(kMiB, kMiB) == sent);
    EXPECT_EQ(m_calls.close(fd), 0);
    EXPECT_EQ(find_region(beside), nullptr);
    EXPECT_EQ(find_region(foreign), nullptr);
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_FALSE(Counters(card()).in_use());
    EXPECT_EQ(Counters(card())["opens"], 1u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
}

TEST_F(HandOver, refused_while_an_allocation_is_live) {
    const std::uint64_t own = value(allocate(card(), {.length = kMiB}));
    const thunk::Reported reported;
    EXPECT_EQ(open(), -EBUSY) << "the result of the library";
    ASSERT_EQ(thunk::Reported::errors().size(), 1u);
    EXPECT_EQ(thunk::Reported::errors()[0].code, EBUSY);
    EXPECT_THAT(thunk::Reported::errors()[0].text, HasSubstr("cannot be handed over to the program that opens it"));
    EXPECT_THAT(thunk::Reported::errors()[0].text, HasSubstr("UCX has 1 allocations with 1048576 bytes on card 0"));
    EXPECT_EQ(card().state(), Card::State::own);
    const HostBuffer host(kMiB);
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(host.address(), own, kMiB))) << "the refusal ended the session";
    const std::uint64_t more = value(allocate(card(), {.length = kMiB}));
    EXPECT_TRUE(free_on(card(), own));
    EXPECT_TRUE(free_on(card(), more));
    const int fd = open();
    EXPECT_GE(fd, 0) << "all memory is freed";
    EXPECT_EQ(m_calls.close(fd), 0);
}

TEST_F(HandOver, refusal_is_reported_once_until_its_reason_changes) {
    const std::uint64_t own = value(allocate(card(), {.length = kMiB}));
    const thunk::Reported reported;
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(open(), -EBUSY);
    EXPECT_EQ(thunk::Reported::errors().size(), 1u);
    const std::uint64_t more = value(allocate(card(), {.length = kMiB}));
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(open(), -EBUSY);
    ASSERT_EQ(thunk::Reported::errors().size(), 2u);
    EXPECT_THAT(thunk::Reported::errors()[1].text, HasSubstr("UCX has 2 allocations"));
    EXPECT_TRUE(free_on(card(), own));
    EXPECT_TRUE(free_on(card(), more));
    const int fd = open();
    EXPECT_GE(fd, 0);
    EXPECT_EQ(m_calls.close(fd), 0);
    const std::uint64_t later = value(allocate(card(), {.length = 2 * kMiB})); // by a new session
    EXPECT_EQ(open(), -EBUSY);
    EXPECT_EQ(thunk::Reported::errors().size(), 3u);
    EXPECT_TRUE(free_on(card(), later));
}

TEST_F(HandOver, refused_while_an_importer_has_memory_registered) {
    const std::uint64_t own = value(allocate(card(), {.length = kMiB}));
    thunk::Fd registered = value(find_region(own)->dmabuf()); // as an HCA holds it
    ASSERT_TRUE(free_on(card(), own));
    {
        const thunk::Reported reported;
        EXPECT_EQ(open(), -EBUSY);
        ASSERT_EQ(thunk::Reported::errors().size(), 1u);
        EXPECT_THAT(thunk::Reported::errors()[0].text, HasSubstr("an RDMA device still has 1 blocks"));
    }
    value(registered.close());
    const int fd = open();
    EXPECT_GE(fd, 0);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_EQ(m_calls.close(fd), 0);
}

class SlowCard : public HookedCallsTest {
protected:
    SlowCard() : HookedCallsTest({}, "down:0.1") {} // 16 MiB take 0.17 s

    static inline std::shared_ptr<Engine> s_engine;
    static inline bool s_busy_at_close = true;
};

TEST_F(SlowCard, close_after_hand_over_waits_for_copies) {
    RealCalls calls = real_calls();
    calls.close = [](int fd) {
        s_busy_at_close = s_engine->busy();
        return FrameworkProgram::call().close(fd);
    };
    HookedCalls hooked(cards(), calls);
    value(card().open());
    const int fd = hooked.open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str());
    ASSERT_GE(fd, 0);
    const HostBuffer host(16 * kMiB);
    const std::uint64_t foreign = hooked.map(fd, hooked.alloc(fd, host.size(), 0, false, false), 0);
    HostRange range(host.address(), host.size(), cards().all().size());
    Mover mover(cards());
    Tally tally;
    s_engine = value(start_engine(card()));
    ASSERT_EQ(mover.post({foreign, host.address(), host.size(), &range, Tally::count, &tally}), Mover::Posted::started);
    ASSERT_TRUE(s_engine->busy());
    EXPECT_EQ(hooked.close(fd), 0);
    EXPECT_FALSE(s_busy_at_close);
    s_engine.reset();
    mover.progress();
    EXPECT_EQ(tally.ended, 1u);
    EXPECT_EQ(tally.failed, 0u) << tally.problem;
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
}

TEST_F(HandOver, mappings_of_an_unseen_close_end_with_the_next_open) {
    value(card().open());
    const int unseen = open();
    const std::uint64_t foreign = m_calls.map(unseen, m_calls.alloc(unseen, kMiB, 0, false, false), 0);
    ASSERT_NE(find_region(foreign), nullptr);
    ASSERT_EQ(::close(unseen), 0);
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_EQ(look_up(foreign), nullptr);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_EQ(m_calls.close(again), 0);
}

TEST_F(HandOver, free_blocks_return_to_the_driver) {
    const auto use = [] { return free_on(card(), value(allocate(card(), {.length = kMiB}))); };
    ASSERT_TRUE(use());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], card().block_size()) << "the arena keeps a free block";
    const int fd = open();
    ASSERT_GE(fd, 0);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u) << "the program may need the memory";
    ASSERT_TRUE(use());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
    EXPECT_EQ(m_calls.close(fd), 0);
    ASSERT_TRUE(use());
    EXPECT_EQ(Counters(card())["dram_used_bytes"], card().block_size());
}

class LostCopies : public HookedCallsTest {
protected:
    LostCopies() : HookedCallsTest("command_submission=skip") {}
};

TEST_F(LostCopies, fail_in_the_session_of_the_program) {
    const HostBuffer host(kMiB);
    value(card().open());
    const int fd = open();
    ASSERT_GE(fd, 0) << "the program does not depend on copies of this library";
    const std::uint64_t foreign = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    const auto refused = Mover(cards()).copy_now(foreign, host.address(), 100);
    EXPECT_EQ(code_of(refused), ENOTSUP);
    EXPECT_THAT(text_of(refused), HasSubstr("the DMA self-test failed"));
    EXPECT_THAT(text_of(refused), HasSubstr("copies do not arrive"));
    EXPECT_EQ(m_calls.close(fd), 0);
}

class FailedEngine : public HookedCallsTest {
protected:
    FailedEngine() : HookedCallsTest(at_submission(1, "reset")) {}
};

TEST_F(FailedEngine, program_gets_no_dead_descriptor) {
    const HostBuffer host(kMiB);
    const std::uint64_t own = value(allocate(card(), {.length = kMiB}));
    ASSERT_FALSE(Mover(cards()).copy_now(own, host.address(), 100));
    ASSERT_TRUE(free_on(card(), own));
    const thunk::Reported reported;
    EXPECT_LT(open(), 0);
    ASSERT_EQ(thunk::Reported::errors().size(), 1u);
    EXPECT_THAT(thunk::Reported::errors()[0].text, HasSubstr("reset"));
}

class UntestedEngine : public HookedCallsTest {
protected:
    UntestedEngine() : HookedCallsTest("device_memory_alloc#1=ENOMEM") {}
};

TEST_F(UntestedEngine, copies_by_the_driver_and_is_tested_after_the_hand_over) {
    const HostBuffer host(kMiB);
    EXPECT_FALSE(uses_completion_flags(*value(start_engine(card()))));
    EXPECT_EQ(Counters(card())["submissions"], 0u) << "the self-test had no memory";
    const std::uint64_t own = value(allocate(card(), {.length = kMiB}));
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(own, host.address(), kMiB)));
    ASSERT_TRUE(free_on(card(), own));
    const int fd = open();
    ASSERT_GE(fd, 0);
    const std::uint64_t before = Counters(card())["submissions"];
    const std::uint64_t foreign = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(foreign, host.address(), 100)));
    EXPECT_EQ(Counters(card())["submissions"] - before, kSelfTestSubmissions + 1u);
    EXPECT_TRUE(uses_completion_flags(*started_engine(card())));
    EXPECT_EQ(m_calls.close(fd), 0);
}

TEST_F(HandOver, self_test_runs_again_in_the_session_of_the_program) {
    change_settings([&](Settings &settings) { settings.completion = CompletionMode::driver; });
    value(start_engine(card()));
    EXPECT_EQ(Counters(card())["submissions"], kSelfTestSubmissions);
    const int fd = open();
    ASSERT_GE(fd, 0);
    EXPECT_EQ(Counters(card())["submissions"], kSelfTestSubmissions) << "the hand-over itself submits nothing";
    const HostBuffer host(kMiB);
    const std::uint64_t foreign = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(foreign, host.address(), 100)));
    EXPECT_EQ(Counters(card())["submissions"], 2 * kSelfTestSubmissions + 1u);
    EXPECT_EQ(m_calls.close(fd), 0);
}

TEST_F(HandOver, open_of_any_card_gets_each_own_card_once) {
    for (const auto &each : cards().all())
        value(each->open());
    EXPECT_EQ(FrameworkProgram::call().open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
    EXPECT_LT(m_calls.open(HLTHUNK_DEVICE_GAUDI3, nullptr), 0) << "the server has no Gaudi3";
    std::vector<int> fds = {m_calls.open_by_module_id(card(1).module_id())};
    ASSERT_GE(fds[0], 0);
    EXPECT_EQ(value(cards().of_descriptor(fds[0])), &card(1));
    EXPECT_EQ(m_calls.open_by_module_id(card(1).module_id()), -EBUSY) << "the program has it already";
    fds.push_back(m_calls.open(HLTHUNK_DEVICE_DONT_CARE, card(2).bus_id().substr(5).c_str()));
    EXPECT_EQ(value(cards().of_descriptor(fds.back())), &card(2)) << "the library accepts a bus id without its domain";
    while (fds.size() <= cards().all().size() && fds.back() >= 0)
        fds.push_back(m_calls.open(HLTHUNK_DEVICE_DONT_CARE, nullptr));
    EXPECT_EQ(fds.size(), cards().all().size() + 1) << "each card is handed over once";
    EXPECT_EQ(fds.back(), -1);
    fds.pop_back();
    for (const int fd : fds) {
        EXPECT_NE(m_calls.alloc(fd, kMiB, 0, false, false), 0u);
        EXPECT_EQ(m_calls.close(fd), 0);
    }
}

TEST_F(HandOver, card_with_live_memory_is_passed_over_for_the_next) {
    value(allocate(card(0), {.length = kMiB}));
    for (const auto &each : cards().all())
        value(each->open());
    const thunk::Reported reported;
    const int fd = m_calls.open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(value(cards().of_descriptor(fd)), &card(1));
    EXPECT_EQ(card(0).state(), Card::State::own);
    EXPECT_EQ(m_calls.close(fd), 0);
}

TEST_F(UnseenClose, card_opens_again) {
    const int unseen = open();
    ASSERT_GE(unseen, 0);
    ASSERT_NE(m_calls.map(unseen, m_calls.alloc(unseen, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(is_adopted(card()));
    ASSERT_EQ(::close(unseen), 0); // only the own duplicate holds the card now
    EXPECT_EQ(FrameworkProgram::call().open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str()), -EBUSY);
    const int again = open();
    EXPECT_GE(again, 0);
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(m_calls.close(again), 0);
}

TEST_F(UnseenClose, card_opens_before_an_own_one_is_handed_over) {
    const int unseen = open(0);
    ASSERT_NE(m_calls.map(unseen, m_calls.alloc(unseen, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(is_adopted(card(0)));
    for (std::size_t index = 1; index < cards().all().size(); ++index)
        value(card(index).open());
    ASSERT_EQ(::close(unseen), 0);
    const int any = m_calls.open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    EXPECT_EQ(value(cards().of_descriptor(any)), &card(0));
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(m_calls.close(any), 0);
}

TEST_F(UnseenClose, deferred_unmap_ends_with_its_session) {
    const int unseen = open();
    const std::uint64_t handle = m_calls.alloc(unseen, kMiB, 0, false, false);
    const std::uint64_t address = m_calls.map(unseen, handle, 0);
    {
        const thunk::Fd registered = value(find_region(address)->dmabuf()); // as an HCA holds it
        EXPECT_EQ(m_calls.unmap(unseen, address), 0);
        EXPECT_EQ(m_calls.free(unseen, handle), 0);
        ASSERT_EQ(deferred_unmaps(), 1u);
    }
    ASSERT_EQ(::close(unseen), 0);
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_EQ(deferred_unmaps(), 0u);
    ASSERT_EQ(m_calls.map(again, m_calls.alloc(again, kMiB, 0, false, false), 0), address);
    EXPECT_NE(m_calls.alloc(again, kMiB, 0, false, false), 0u); // retries deferred unmaps
    const HostBuffer host(kMiB);
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(address, host.address(), kMiB)));
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
    EXPECT_EQ(m_calls.close(again), 0);
}

TEST_F(CardClose, descriptor_shortage_keeps_the_card_until_the_next_open) {
    const int fd = open();
    const std::uint64_t address = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlim_t usual = std::exchange(limit.rlim_cur, 3);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(m_calls.close(fd), 0);
    EXPECT_NE(find_region(address), nullptr) << "unknown whether it was the last descriptor";
    EXPECT_EQ(m_calls.close(second), 0);
    limit.rlim_cur = usual;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(m_listener.closed_count(), 0u);
    const int again = open();
    EXPECT_GE(again, 0) << "it was the last one";
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(find_region(address), nullptr);
    EXPECT_EQ(m_calls.close(again), 0);
}

class ReusedDescriptor : public HookedCallsTest {
protected:
    /// Expects that a mapping by `fd` is on the second card.
    void expect_second_card(int fd) {
        const std::uint64_t address = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
        const Region *region = look_up(address);
        ASSERT_NE(region, nullptr);
        EXPECT_EQ(&region->card(), &card(1));
        EXPECT_EQ(m_calls.unmap(fd, address), 0);
        EXPECT_EQ(look_up(address), nullptr);
        EXPECT_EQ(m_calls.close(fd), 0);
    }
    void make_known(int fd) { EXPECT_EQ(m_calls.free(fd, m_calls.alloc(fd, kMiB, 0, false, false)), 0); }
};

TEST_F(ReusedDescriptor, opened_unseen_maps_on_the_second_card) {
    const int fd = FrameworkProgram::call().open(HLTHUNK_DEVICE_DONT_CARE, card(0).bus_id().c_str());
    make_known(fd);
    ASSERT_EQ(m_calls.close(fd), 0);
    ASSERT_EQ(FrameworkProgram::call().open(HLTHUNK_DEVICE_DONT_CARE, card(1).bus_id().c_str()), fd);
    expect_second_card(fd);
}

TEST_F(ReusedDescriptor, closed_unseen_maps_on_the_second_card) {
    const int fd = open(0);
    make_known(fd);
    ASSERT_EQ(FrameworkProgram::call().close(fd), 0);
    ASSERT_EQ(open(1), fd);
    expect_second_card(fd);
}

class CardInReset : public HookedCallsTest {
protected:
    CardInReset() : HookedCallsTest(at_submission(2, "reset")) {}
};

TEST_F(CardInReset, last_close_releases_it) {
    const int fd = open();
    const std::uint64_t address = m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0);
    const HostBuffer host(kMiB);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(address, host.address(), 100)));
    ASSERT_FALSE(mover.copy_now(address, host.address(), 100));
    ASSERT_EQ(Counters(card())["hard_resets"], 1u);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    EXPECT_EQ(m_calls.close(fd), 0);
    EXPECT_EQ(m_listener.closed_count(), 0u) << "the program has a second descriptor";
    EXPECT_EQ(m_calls.close(second), 0);
    EXPECT_EQ(m_listener.closed_count(), 1u);
    EXPECT_EQ(find_region(address), nullptr);
    EXPECT_FALSE(Counters(card()).in_use()) << "the driver ends a reset only when all descriptors are closed";
    const int again = open();
    ASSERT_GE(again, 0);
    const std::uint64_t next = m_calls.map(again, m_calls.alloc(again, kMiB, 0, false, false), 0);
    EXPECT_TRUE(is_ok(mover.copy_now(next, host.address(), 100)));
    EXPECT_EQ(m_calls.close(again), 0);
}

TEST_F(CardClose, other_descriptors_are_ignored) {
    const thunk::Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(m_calls.unmap(file.get(), 4096), FrameworkProgram::call().memory_unmap(file.get(), 4096));
    const int control = FrameworkProgram::call().open_control(0, nullptr);
    EXPECT_EQ(m_calls.close(control), 0);
    EXPECT_EQ(m_listener.closed_count(), 0u);
}

} // namespace
