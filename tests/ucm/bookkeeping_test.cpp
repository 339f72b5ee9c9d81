// SPDX-License-Identifier: BSD-3-Clause
// What the hooks make of a program's calls: it sees what the library does, and we know of each mapping while there is one.
#include "framework_program.h"

#include "gaudi/mover.h"
#include "ucm/bookkeeping.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

using namespace gaudi;
using namespace gaudi::test;
using ucm::Bookkeeping;
using ucm::RealCalls;

namespace {

RealCalls real() {
    const thunk::Functions &call = Other::call();
    return {call.open,
            call.open_by_module_id,
            call.close,
            call.device_memory_alloc,
            call.device_memory_free,
            call.device_memory_map,
            call.memory_unmap};
}

/// Hears what UCX would.
class Listener : public MappingListener {
public:
    void mapped(const Region &region) override {
        const std::lock_guard guard(m_mutex);
        m_ranges.push_back({region.base(), region.size()});
        ++m_mapped;
    }
    void unmapping(const Region &region) override {
        const std::lock_guard guard(m_mutex);
        std::erase_if(m_ranges, [&](const Range &range) { return range.base == region.base(); });
        ++m_unmapped;
    }
    void left(const Card &) override { ++m_left; }

    std::vector<Range> ranges() {
        const std::lock_guard guard(m_mutex);
        return m_ranges;
    }
    unsigned mapped_count() const { return m_mapped; }
    unsigned unmapped_count() const { return m_unmapped; }
    unsigned left_count() const { return m_left; }

private:
    std::mutex m_mutex;
    std::vector<Range> m_ranges;
    std::atomic<unsigned> m_mapped{0}, m_unmapped{0}, m_left{0};
};

/// The software server reads this when it is first used.
struct Faults {
    explicit Faults(const std::string &rules) {
        if (!rules.empty())
            set("SOFTGAUDI_FAULTS", rules);
    }
};

class BookkeepingTest : public GaudiTest, Faults {
protected:
    explicit BookkeepingTest(const std::string &faults = {}) : Faults(faults) { cards().add_listener(m_listener); }
    ~BookkeepingTest() override { cards().remove_listener(m_listener); }

    /// As the program's calls, through the hooks.
    int open(std::size_t index = 0) { return m_book.open(HLTHUNK_DEVICE_DONT_CARE, card(index).bus_id().c_str()); }

    Listener m_listener;
    Bookkeeping m_book{cards(), real()};
};

TEST_F(BookkeepingTest, a_mapping_is_known_with_address_and_size_from_map_to_unmap) {
    const int fd = open();
    ASSERT_GE(fd, 0);
    const std::uint64_t handle = m_book.alloc(fd, 5 * kMiB, 0, false, false);
    ASSERT_NE(handle, 0u);
    EXPECT_TRUE(m_listener.ranges().empty()) << "it has no address yet";
    const std::uint64_t address = m_book.map(fd, handle, 0);
    ASSERT_NE(address, 0u);
    ASSERT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_listener.ranges()[0].base, address);
    EXPECT_EQ(m_listener.ranges()[0].length, 5 * kMiB);
    const Region *region = cards().find(address);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->origin(), Region::Origin::seen);
    EXPECT_EQ(&region->card(), &card());
    EXPECT_EQ(m_book.unmap(fd, address), 0);
    EXPECT_TRUE(m_listener.ranges().empty());
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_EQ(m_book.free(fd, handle), 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_FALSE(Counters(card()).in_use());
}

TEST_F(BookkeepingTest, one_allocation_may_be_mapped_again) {
    const int fd = open();
    const std::uint64_t handle = m_book.alloc(fd, kMiB, 0, false, false);
    for (int time = 0; time < 3; ++time) {
        const std::uint64_t address = m_book.map(fd, handle, 0);
        EXPECT_EQ(m_listener.ranges().size(), 1u);
        EXPECT_EQ(m_book.unmap(fd, address), 0);
    }
    EXPECT_EQ(m_book.free(fd, handle), 0);
    EXPECT_EQ(m_listener.mapped_count(), 3u);
    EXPECT_EQ(m_listener.unmapped_count(), 3u);
}

TEST_F(BookkeepingTest, a_call_costs_the_driver_nothing_more) {
    const int fd = open();
    const auto use = [&] {
        const std::uint64_t handle = m_book.alloc(fd, kMiB, 0, false, false);
        EXPECT_EQ(m_book.unmap(fd, m_book.map(fd, handle, 0)), 0);
        EXPECT_EQ(m_book.free(fd, handle), 0);
    };
    use(); // the first one finds out whether the card exports
    const Counters before(card());
    for (int time = 0; time < 100; ++time)
        use();
    const Counters after(card());
    EXPECT_EQ(after.calls() - before.calls(), 400u);
}

TEST_F(BookkeepingTest, failures_are_the_librarys_with_its_errno) {
    const int fd = open();
    errno = 0;
    EXPECT_EQ(m_book.alloc(fd, 1ull << 60, 0, false, false),
              Other::call().device_memory_alloc(fd, 1ull << 60, 0, false, false));
    const int book_errno = (errno = 0, m_book.unmap(fd, 12345), errno);
    const int real_errno = (errno = 0, Other::call().memory_unmap(fd, 12345), errno);
    EXPECT_EQ(book_errno, real_errno);
    EXPECT_EQ(m_book.unmap(fd, 12345), Other::call().memory_unmap(fd, 12345));
    EXPECT_EQ(m_book.free(fd, 99), Other::call().device_memory_free(fd, 99));
    EXPECT_EQ(m_book.map(fd, 99, 0), 0u);
    EXPECT_EQ(m_book.close(-1), Other::call().close(-1));
    EXPECT_EQ(m_book.open(HLTHUNK_DEVICE_DONT_CARE, "nonsense"),
              Other::call().open(HLTHUNK_DEVICE_DONT_CARE, "nonsense"));
    errno = 77;
    EXPECT_EQ(m_book.unmap(fd, m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0)), 0);
    EXPECT_EQ(errno, 77) << "success does not touch it";
}

class RefusedUnmap : public BookkeepingTest {
protected:
    static int refuse(int, std::uint64_t) {
        errno = EIO;
        return -EIO;
    }
};

TEST_F(RefusedUnmap, leaves_the_mapping_known) {
    RealCalls calls = real();
    calls.memory_unmap = refuse;
    Bookkeeping book(cards(), calls);
    const int fd = open();
    const std::uint64_t address = book.map(fd, book.alloc(fd, kMiB, 0, false, false), 0);
    EXPECT_EQ(book.unmap(fd, address), -EIO);
    ASSERT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_listener.ranges()[0].base, address);
    EXPECT_EQ(m_listener.unmapped_count(), 1u) << "everybody let go of it, to be on the safe side";
    EXPECT_EQ(m_book.close(fd), 0);
}

TEST_F(BookkeepingTest, what_was_allocated_before_we_looked_is_found_by_asking) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    EXPECT_TRUE(m_listener.ranges().empty());
    Region *region = cards().look_up(memory.address + 5);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->origin(), Region::Origin::asked);
    const std::uint64_t generation = region->generation();
    EXPECT_EQ(m_book.unmap(other.fd(), memory.address), 0) << "and unmapped with our knowledge";
    EXPECT_NE(region->generation(), generation);
    EXPECT_EQ(m_book.free(other.fd(), memory.handle), 0);

    // The allocation was not seen, the mapping is.
    const std::uint64_t handle = Other::call().device_memory_alloc(other.fd(), kMiB, 0, false, false);
    const std::uint64_t address = m_book.map(other.fd(), handle, 0);
    EXPECT_TRUE(m_listener.ranges().empty()) << "its size is not known";
    EXPECT_NE(cards().look_up(address), nullptr);
    EXPECT_EQ(m_book.unmap(other.fd(), address), 0);
}

TEST_F(BookkeepingTest, a_registered_mapping_goes_for_its_owner_at_once_and_for_the_driver_when_it_can) {
    const int fd = open();
    const std::uint64_t handle = m_book.alloc(fd, kMiB, 0, false, false);
    const std::uint64_t address = m_book.map(fd, handle, 0);
    thunk::Fd registered = value(cards().find(address)->dmabuf()); // as a NIC holds it
    EXPECT_EQ(m_book.unmap(fd, address), 0);
    EXPECT_EQ(m_book.free(fd, handle), 0);
    EXPECT_EQ(m_book.lingering(), 1u);
    EXPECT_EQ(cards().look_up(address), nullptr);
    const std::uint64_t other = m_book.alloc(fd, kMiB, 0, false, false);
    EXPECT_EQ(m_book.lingering(), 1u) << "still registered";
    const std::uint64_t apart = m_book.map(fd, other, 0);
    EXPECT_NE(apart, address) << "and its address not given away";
    value(registered.close());
    EXPECT_EQ(m_book.unmap(fd, apart), 0);
    EXPECT_EQ(m_book.lingering(), 0u);
    EXPECT_EQ(m_book.free(fd, other), 0);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u) << "its memory went with it";
    const std::uint64_t again = m_book.alloc(fd, kMiB, 0, false, false);
    EXPECT_EQ(m_book.map(fd, again, 0), address);
    EXPECT_NE(cards().find(address), nullptr);
}

TEST_F(BookkeepingTest, of_a_mapping_made_before_we_looked_too) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    const thunk::Fd registered = value(cards().look_up(memory.address)->dmabuf());
    EXPECT_EQ(m_book.unmap(other.fd(), memory.address), 0);
    EXPECT_EQ(m_book.free(other.fd(), memory.handle), 0);
    EXPECT_EQ(m_book.lingering(), 1u);
}

TEST_F(BookkeepingTest, closing_a_card_ends_what_is_on_it) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    ASSERT_NE(cards().find(address), nullptr);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_EQ(m_listener.unmapped_count(), 1u);
    EXPECT_EQ(m_listener.left_count(), 1u) << "and it is said";
    EXPECT_FALSE(Counters(card()).in_use());
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_NE(m_book.map(again, m_book.alloc(again, kMiB, 0, false, false), 0), 0u);
    EXPECT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(BookkeepingTest, a_second_descriptor_keeps_the_card) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_NE(cards().find(address), nullptr);
    EXPECT_EQ(m_book.unmap(second, address), 0);
    EXPECT_EQ(m_book.close(second), 0);
}

TEST_F(BookkeepingTest, who_opens_a_card_that_we_have_shares_ours) {
    const std::uint64_t ours = value(card().arena().allocate({.length = kMiB}));
    const int fd = open();
    ASSERT_GE(fd, 0) << "the library alone would say EBUSY";
    EXPECT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str()), -EBUSY);
    const std::uint64_t theirs = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    ASSERT_NE(theirs, 0u);
    const HostMemory host(kMiB);
    EXPECT_EQ(Mover(cards()).copy_now(theirs, ours, kMiB), 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_NE(cards().find(ours), nullptr) << "it stays ours";
    EXPECT_EQ(Mover(cards()).copy_now(host.address(), ours, kMiB), 0);
}

TEST_F(BookkeepingTest, who_opens_any_card_shares_ours_where_none_is_free) {
    for (const auto &each : cards().all())
        value(each->arena().allocate({.length = kMiB}));
    EXPECT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
    EXPECT_LT(m_book.open(HLTHUNK_DEVICE_GAUDI3, nullptr), 0) << "there is none of that name";
    std::vector<int> lent = {m_book.open_by_module_id(card(1).module_id())};
    ASSERT_GE(lent[0], 0);
    EXPECT_EQ(cards().of_descriptor(lent[0]), &card(1));
    EXPECT_EQ(m_book.open_by_module_id(card(1).module_id()), -EBUSY) << "they have it already";
    while (lent.size() <= cards().all().size() && lent.back() >= 0)
        lent.push_back(m_book.open(HLTHUNK_DEVICE_DONT_CARE, nullptr));
    EXPECT_EQ(lent.size(), cards().all().size() + 1) << "who takes all that there are comes to an end";
    EXPECT_EQ(lent.back(), -1);
    lent.pop_back();
    for (const int fd : lent) {
        EXPECT_NE(m_book.alloc(fd, kMiB, 0, false, false), 0u);
        EXPECT_EQ(m_book.close(fd), 0);
    }
}

TEST_F(BookkeepingTest, a_card_that_was_closed_unseen_can_be_opened_again) {
    const int unseen = open();
    ASSERT_GE(unseen, 0);
    ASSERT_NE(m_book.map(unseen, m_book.alloc(unseen, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(card().adopted());
    ASSERT_EQ(::close(unseen), 0); // only our duplicate holds it now
    EXPECT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str()), -EBUSY);
    const int again = open();
    EXPECT_GE(again, 0);
    EXPECT_EQ(m_listener.left_count(), 1u);
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(BookkeepingTest, a_card_that_was_closed_unseen_is_opened_before_one_of_ours_is_lent) {
    const int unseen = open(0);
    ASSERT_NE(m_book.map(unseen, m_book.alloc(unseen, kMiB, 0, false, false), 0), 0u);
    ASSERT_TRUE(card(0).adopted());
    for (std::size_t index = 1; index < cards().all().size(); ++index)
        value(card(index).arena().allocate({.length = kMiB}));
    ASSERT_EQ(::close(unseen), 0);
    const int any = m_book.open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    EXPECT_EQ(cards().of_descriptor(any), &card(0));
    EXPECT_EQ(m_listener.left_count(), 1u);
    EXPECT_EQ(m_book.close(any), 0);
}

TEST_F(BookkeepingTest, what_lingered_when_a_card_was_closed_unseen_is_not_unmapped_in_its_next_life) {
    const int unseen = open();
    const std::uint64_t handle = m_book.alloc(unseen, kMiB, 0, false, false);
    const std::uint64_t address = m_book.map(unseen, handle, 0);
    {
        const thunk::Fd registered = value(cards().find(address)->dmabuf()); // as a NIC holds it
        EXPECT_EQ(m_book.unmap(unseen, address), 0);
        EXPECT_EQ(m_book.free(unseen, handle), 0);
        ASSERT_EQ(m_book.lingering(), 1u);
    }
    ASSERT_EQ(::close(unseen), 0);
    const int again = open();
    ASSERT_GE(again, 0);
    EXPECT_EQ(m_book.lingering(), 0u);
    ASSERT_EQ(m_book.map(again, m_book.alloc(again, kMiB, 0, false, false), 0), address);
    EXPECT_NE(m_book.alloc(again, kMiB, 0, false, false), 0u); // which is when the driver was asked again
    const HostMemory host(kMiB);
    EXPECT_EQ(Mover(cards()).copy_now(address, host.address(), kMiB), 0);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(BookkeepingTest, a_process_without_descriptors_to_look_with_keeps_the_card) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlim_t usual = std::exchange(limit.rlim_cur, 3);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_NE(cards().find(address), nullptr) << "who knows whether it was their last";
    EXPECT_EQ(m_book.close(second), 0);
    limit.rlim_cur = usual;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(m_listener.left_count(), 0u);
    const int again = open();
    EXPECT_GE(again, 0) << "it was, as is seen now";
    EXPECT_EQ(m_listener.left_count(), 1u);
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_EQ(m_book.close(again), 0);
}

class ReusedNumber : public BookkeepingTest {
protected:
    /// What is mapped through it is on the second card.
    void expect_second_card(int fd) {
        const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
        const Region *region = cards().look_up(address);
        ASSERT_NE(region, nullptr);
        EXPECT_EQ(&region->card(), &card(1));
        EXPECT_EQ(m_book.unmap(fd, address), 0);
        EXPECT_EQ(cards().look_up(address), nullptr);
        EXPECT_EQ(m_book.close(fd), 0);
    }
    void become_known(int fd) { EXPECT_EQ(m_book.free(fd, m_book.alloc(fd, kMiB, 0, false, false)), 0); }
};

TEST_F(ReusedNumber, opened_and_given_away_unseen) {
    const int fd = Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card(0).bus_id().c_str());
    become_known(fd);
    ASSERT_EQ(m_book.close(fd), 0);
    ASSERT_EQ(Other::call().open(HLTHUNK_DEVICE_DONT_CARE, card(1).bus_id().c_str()), fd);
    expect_second_card(fd);
}

TEST_F(ReusedNumber, closed_unseen_and_given_away_where_we_see_it) {
    const int fd = open(0);
    become_known(fd);
    ASSERT_EQ(Other::call().close(fd), 0);
    ASSERT_EQ(open(1), fd);
    expect_second_card(fd);
}

/// Asks for other memory while it is told.
struct Asking : MappingListener {
    Asking(Cards &all, std::uint64_t gone_address, std::uint64_t new_address)
        : cards(all), gone(gone_address), unknown(new_address) {}
    void mapped(const Region &region) override { ask(region); }
    void unmapping(const Region &region) override { ask(region); }
    void ask(const Region &told_of) {
        ++told;
        EXPECT_EQ(cards.look_up(told_of.base()), &told_of);
        if (Region *known = cards.look_up(gone))
            cards.foreign().still_there(*known);
        cards.look_up(unknown);
    }

    Cards &cards;
    const std::uint64_t gone, unknown;
    unsigned told = 0;
};

TEST_F(BookkeepingTest, who_is_told_may_ask_and_waits_for_nobody) {
    const Other other(card().bus_id());
    const std::uint64_t seen = m_book.map(other.fd(), m_book.alloc(other.fd(), kMiB, 0, false, false), 0);
    const Other::Memory gone = other.allocate(kMiB), unknown = other.allocate(kMiB);
    ASSERT_NE(cards().look_up(gone.address), nullptr);
    ASSERT_TRUE(other.unmap(gone));
    Asking asking(cards(), gone.address, unknown.address);
    cards().add_listener(asking);
    EXPECT_EQ(m_book.unmap(other.fd(), seen), 0);
    EXPECT_NE(m_book.map(other.fd(), m_book.alloc(other.fd(), kMiB, 0, false, false), 0), 0u);
    cards().remove_listener(asking);
    EXPECT_GE(asking.told, 3u);
    EXPECT_NE(cards().look_up(unknown.address), nullptr) << "later it is found";
}

class CardInReset : public BookkeepingTest {
protected:
    CardInReset() : BookkeepingTest(at_submission(2, "reset")) {}
};

TEST_F(CardInReset, is_let_go_of_when_its_owner_closes_it) {
    const int fd = open();
    const std::uint64_t address = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    const HostMemory host(kMiB);
    Mover mover(cards());
    ASSERT_EQ(mover.copy_now(address, host.address(), 100), 0);
    ASSERT_NE(mover.copy_now(address, host.address(), 100), 0);
    ASSERT_EQ(Counters(card())["hard_resets"], 1u);
    const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    EXPECT_EQ(m_book.close(fd), 0);
    EXPECT_EQ(m_listener.left_count(), 0u) << "they have it still, reset or not";
    EXPECT_EQ(m_book.close(second), 0);
    EXPECT_EQ(m_listener.left_count(), 1u);
    EXPECT_EQ(cards().find(address), nullptr);
    EXPECT_FALSE(Counters(card()).in_use()) << "else the reset would never end";
    const int again = open();
    ASSERT_GE(again, 0);
    const std::uint64_t next = m_book.map(again, m_book.alloc(again, kMiB, 0, false, false), 0);
    EXPECT_EQ(mover.copy_now(next, host.address(), 100), 0) << mover.problem();
    EXPECT_EQ(m_book.close(again), 0);
}

TEST_F(BookkeepingTest, other_descriptors_are_left_alone) {
    const thunk::Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(m_book.unmap(file.get(), 4096), Other::call().memory_unmap(file.get(), 4096));
    const int control = Other::call().open_control(0, nullptr);
    EXPECT_EQ(m_book.close(control), 0);
    EXPECT_EQ(m_listener.left_count(), 0u);
}

TEST_F(BookkeepingTest, threads_that_map_and_unmap_at_full_speed_are_followed_exactly) {
    constexpr unsigned kThreads = 8, kTimes = 200;
    const int fd = open();
    std::atomic<unsigned> wrong{0};
    std::atomic<bool> over{false};
    // And one that asks for addresses all the time, as UCX does.
    std::thread asking([&] {
        const std::uint64_t base = card().info().dram_base_address;
        for (unsigned i = 0; !over; ++i)
            if (Region *region = cards().look_up(base + i % 16 * kPage))
                (void)region->allocation(base);
    });
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            for (unsigned time = 0; time < kTimes; ++time) {
                const std::uint64_t handle = m_book.alloc(fd, kMiB + time, 0, false, false);
                const std::uint64_t address = m_book.map(fd, handle, 0);
                const Region *region = address ? cards().find(address) : nullptr;
                if (!region || region->base() != address || region->size() != kMiB + time)
                    ++wrong;
                if (m_book.unmap(fd, address) != 0 || m_book.free(fd, handle) != 0)
                    ++wrong;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    over = true;
    asking.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(m_listener.mapped_count(), kThreads * kTimes);
    EXPECT_GE(m_listener.unmapped_count(), kThreads * kTimes) << "what was found by asking may be told of twice";
    EXPECT_TRUE(m_listener.ranges().empty());
    EXPECT_EQ(m_book.close(fd), 0);
}

TEST_F(BookkeepingTest, threads_that_copy_and_register_survive_a_card_that_is_closed_and_opened_again) {
    constexpr unsigned kLives = 5;
    std::atomic<std::uint64_t> memory{0};
    std::atomic<unsigned> copies{0};
    std::atomic<bool> over{false};
    const HostMemory host(4 * kMiB);
    std::vector<std::thread> threads;
    threads.emplace_back([&] { // copies to what there is, or was a moment ago
        Mover mover(cards());
        while (!over)
            if (const std::uint64_t at = memory; at != 0 && mover.copy_now(at, host.address(), 100'000) == 0)
                ++copies;
            else
                std::this_thread::yield();
    });
    threads.emplace_back([&] { // registers, copies once, and gives the registration back
        Mover mover(cards());
        while (!over)
            if (const std::uint64_t at = memory) {
                HostRange range(host.address(), host.size(), cards().all().size());
                range.may_leave();
                Tally tally;
                if (mover.post({host.address(), at, kMiB, &range, Tally::count, &tally}) == Mover::Posted::started)
                    until([&] {
                        mover.progress();
                        return mover.outstanding() == 0;
                    });
            }
    });
    threads.emplace_back([&] { // exports, as a NIC's domain does
        while (!over)
            if (Region *region = cards().look_up(memory))
                (void)region->dmabuf();
    });
    for (unsigned life = 0; life < kLives; ++life) {
        int fd = -1;
        // An export that is being made keeps the card for the moment.
        EXPECT_TRUE(until([&] { return (fd = open()) >= 0; })) << life;
        memory = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
        EXPECT_NE(memory, 0u);
        const unsigned before = copies;
        EXPECT_TRUE(until([&] { return copies != before; })) << "no copy in life " << life;
        EXPECT_EQ(m_book.close(fd), 0);
    }
    over = true;
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
    // Whoever has it now, it works.
    int fd = -1;
    ASSERT_TRUE(until([&] { return (fd = open()) >= 0; }));
    const std::uint64_t last = m_book.map(fd, m_book.alloc(fd, kMiB, 0, false, false), 0);
    EXPECT_EQ(Mover(cards()).copy_now(last, host.address(), kMiB), 0);
    EXPECT_EQ(m_book.close(fd), 0);
}

TEST_F(BookkeepingTest, registrations_that_come_and_go_under_load_hold_nothing_for_ever) {
    constexpr unsigned kThreads = 4, kTimes = 50;
    const int fd = open();
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            for (unsigned time = 0; time < kTimes; ++time) {
                const std::uint64_t handle = m_book.alloc(fd, kMiB, 0, false, false);
                const std::uint64_t address = m_book.map(fd, handle, 0);
                thunk::Fd registered;
                if (Region *region = cards().find(address))
                    if (auto exported = region->dmabuf())
                        registered = std::move(*exported);
                if (m_book.unmap(fd, address) != 0 || m_book.free(fd, handle) != 0)
                    ++wrong;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(m_book.free(fd, m_book.alloc(fd, kMiB, 0, false, false)), 0);
    EXPECT_EQ(m_book.lingering(), 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

} // namespace
