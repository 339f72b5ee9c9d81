// SPDX-License-Identifier: BSD-3-Clause
// Memory that others mapped: found with its exact start and length, copied, exported, and forgotten when it goes.
#include "framework_program.h"

#include "gaudi/foreign.h"
#include "gaudi/mover.h"
#include "thunk/reported.h"

#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <utility>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class ForeignTest : public GaudiTest {
protected:
    static Foreign &foreign() { return cards().foreign(); }
    static void expect_found(const Other::Memory &memory, std::uint64_t length, const Card &on) {
        for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, length / 2, length - 1}) {
            Region *region = cards().look_up(memory.address + offset);
            ASSERT_NE(region, nullptr) << offset;
            EXPECT_EQ(region->base(), memory.address);
            EXPECT_EQ(region->size(), length);
            EXPECT_EQ(&region->card(), &on);
            const Range allocation = region->allocation(memory.address + offset);
            EXPECT_EQ(allocation.base, memory.address);
            EXPECT_EQ(allocation.length, length);
        }
    }
};

TEST_F(ForeignTest, addresses_of_processors_are_never_asked_about) {
    const Other other(card().bus_id());
    const int local = 0;
    EXPECT_EQ(cards().look_up(reinterpret_cast<std::uint64_t>(&local)), nullptr);
    EXPECT_EQ(cards().look_up(0), nullptr);
    EXPECT_EQ(cards().look_up(UINT64_MAX), nullptr);
    EXPECT_FALSE(card().is_open());
    EXPECT_TRUE(cards().only_on_cards(card().info().dram_base_address));
    EXPECT_FALSE(cards().only_on_cards(card().info().dram_base_address - 1));
}

TEST_F(ForeignTest, a_mapping_that_nobody_saw_is_found_from_any_address_in_it) {
    const Other other(card().bus_id());
    const auto one = other.allocate(kMiB), three = other.allocate(3 * kPage), two = other.allocate(kPage + 1);
    expect_found(three, 3 * kPage, card());
    expect_found(one, kPage, card());
    expect_found(two, 2 * kPage, card());
}

TEST_F(ForeignTest, beside_our_own_memory_too) {
    const Other other(card().bus_id());
    const auto before = other.allocate(2 * kPage);
    const std::uint64_t ours = value(card().arena().allocate({.length = kMiB}));
    const auto after = other.allocate(kPage, cards().find(ours)->base() + cards().find(ours)->size());
    expect_found(after, kPage, card());
    expect_found(before, 2 * kPage, card());
    EXPECT_EQ(cards().find(ours)->origin(), Region::Origin::ours);
}

TEST_F(ForeignTest, where_nothing_is_mapped_nothing_is_found) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(kPage);
    EXPECT_EQ(cards().look_up(memory.address + kPage), nullptr);
    EXPECT_EQ(cards().look_up(memory.address + 100 * kPage), nullptr);
    EXPECT_EQ(cards().look_up(card().window().base + card().window().length - 1), nullptr);
}

TEST_F(ForeignTest, without_exports_what_nobody_saw_is_not_found) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    const Other other(card().bus_id());
    const auto memory = other.allocate(kPage);
    EXPECT_EQ(cards().look_up(memory.address), nullptr);
    foreign().mapped(card(), memory.address, kPage);
    Region *seen = cards().look_up(memory.address);
    ASSERT_NE(seen, nullptr) << "but what was seen is";
    EXPECT_FALSE(seen->exportable());
}

TEST_F(ForeignTest, what_was_found_can_be_unmapped_by_its_owner_at_any_time) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(kPage);
    Region *region = cards().look_up(memory.address);
    ASSERT_NE(region, nullptr);
    EXPECT_TRUE(region->exportable());
    EXPECT_EQ(region->export_descriptor(), -1) << "no export is kept, which would hold the mapping";
    EXPECT_EQ(region->hold_window(), nullptr);
    EXPECT_TRUE(foreign().still_there(*region));
    EXPECT_TRUE(other.free(memory));
    EXPECT_FALSE(foreign().still_there(*region));
    EXPECT_EQ(cards().look_up(memory.address), nullptr);
}

TEST_F(ForeignTest, a_driver_that_is_short_of_something_says_nothing_about_a_mapping) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(kPage);
    Region *region = cards().look_up(memory.address);
    ASSERT_NE(region, nullptr);
    const std::uint64_t generation = region->generation();
    {
        rlimit limit{};
        ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
        const rlim_t usual = std::exchange(limit.rlim_cur, 3); // no descriptor for the export that would confirm it
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        EXPECT_TRUE(foreign().still_there(*region));
        limit.rlim_cur = usual;
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    EXPECT_EQ(region->generation(), generation);
    EXPECT_TRUE(other.free(memory));
    EXPECT_FALSE(foreign().still_there(*region)) << "that is another answer";
    EXPECT_NE(region->generation(), generation);
}

TEST_F(ForeignTest, a_want_of_descriptors_does_not_make_it_host_memory) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd#1=EMFILE;"
                            "device_mapped_memory_export_dmabuf_fd#2=EMFILE");
    const Other other(card().bus_id());
    const auto memory = other.allocate(kMiB);
    EXPECT_NE(cards().look_up(memory.address), nullptr);
}

TEST_F(ForeignTest, one_that_lasts_is_said_once_and_ends_the_search) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EMFILE");
    const Other other(card().bus_id());
    const auto memory = other.allocate(3 * kPage);
    const thunk::Reported reported;
    EXPECT_EQ(cards().look_up(memory.address + 2 * kPage), nullptr);
    ASSERT_EQ(reported.errors().size(), 1u);
    EXPECT_EQ(reported.errors()[0].code, EMFILE);
}

TEST_F(ForeignTest, is_found_while_we_take_and_give_back_memory_of_our_own) {
    const Other other(card().bus_id());
    std::atomic<bool> over{false};
    std::atomic<unsigned> times{0};
    std::thread ours([&] { // blocks that are not kept
        for (; !over; ++times)
            card().arena().free(value(card().arena().allocate({.length = 3 * kPage})));
    });
    unsigned lost = 0;
    for (unsigned i = 0; i < 1000 || times < 1000; ++i) {
        const auto memory = other.allocate(kMiB);
        Region *found = cards().look_up(memory.address);
        EXPECT_TRUE(other.free(memory));
        if (!found)
            ++lost;
        else
            EXPECT_FALSE(foreign().still_there(*found)); // so that the next one is looked for
    }
    over = true;
    ours.join();
    EXPECT_EQ(lost, 0u);
}

TEST_F(ForeignTest, a_larger_mapping_in_its_place_is_found_from_both_parts) {
    const Other other(card().bus_id());
    const auto small = other.allocate(kPage);
    ASSERT_NE(cards().look_up(small.address), nullptr);
    ASSERT_TRUE(other.free(small));
    const auto large = other.allocate(2 * kPage);
    ASSERT_EQ(large.address, small.address);
    Region *region = cards().look_up(large.address + kPage);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->base(), large.address);
    EXPECT_EQ(region->size(), 2 * kPage);
}

TEST_F(ForeignTest, a_smaller_mapping_in_its_place_is_noticed) {
    const Other other(card().bus_id());
    const auto large = other.allocate(2 * kPage);
    Region *region = cards().look_up(large.address);
    ASSERT_NE(region, nullptr);
    ASSERT_TRUE(other.free(large));
    const auto small = other.allocate(kPage);
    ASSERT_EQ(large.address, small.address);
    EXPECT_FALSE(foreign().still_there(*region));
    region = cards().look_up(small.address);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->size(), kPage);
}

TEST_F(ForeignTest, copies_and_exports_are_as_with_our_own) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(kPage);
    const HostMemory host(16 * kMiB);
    const Bytes sent = pattern(8 * kMiB, 3);
    host.write(0, sent);
    Mover mover(cards());
    ASSERT_EQ(mover.copy_now(memory.address + 12345, host.address(), sent.size()), 0);
    EXPECT_TRUE(Window(*cards().look_up(memory.address)).read(memory.address + 12345, sent.size()) == sent);
    ASSERT_EQ(mover.copy_now(host.address(8 * kMiB), memory.address + 12345, sent.size()), 0);
    EXPECT_TRUE(host.read(8 * kMiB, sent.size()) == sent);
    Region *region = cards().look_up(memory.address);
    const thunk::Fd exported = value(region->dmabuf());
    EXPECT_EQ(lseek(exported.get(), 0, SEEK_END), static_cast<off_t>(kPage));
    EXPECT_TRUE(region->was_exported());
}

TEST_F(ForeignTest, a_mapping_that_was_seen_has_the_length_that_was_asked_for) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(5 * kMiB + 1);
    foreign().mapped(card(), memory.address, 5 * kMiB + 1);
    expect_found(memory, 5 * kMiB + 1, card());
    EXPECT_EQ(cards().look_up(memory.address)->origin(), Region::Origin::seen);
    const thunk::Fd exported = value(cards().look_up(memory.address)->dmabuf());
    EXPECT_GE(lseek(exported.get(), 0, SEEK_END), static_cast<off_t>(5 * kMiB + 1));
}

TEST_F(ForeignTest, what_is_being_unmapped_is_not_found_again) {
    const Other other(card().bus_id());
    const auto memory = other.allocate(kPage);
    foreign().mapped(card(), memory.address, kPage);
    const std::uint64_t generation = cards().find(memory.address)->generation();
    const Region *region = cards().find(memory.address);
    foreign().unmapping(card(), memory.address);
    foreign().lingers(card(), memory.address);
    EXPECT_NE(region->generation(), generation);
    EXPECT_EQ(cards().look_up(memory.address), nullptr) << "although it is mapped yet";
    foreign().unmapped(card(), memory.address);
    EXPECT_NE(cards().look_up(memory.address), nullptr) << "the driver had refused";
}

TEST_F(ForeignTest, memory_of_two_cards_at_one_address_is_the_firsts_and_that_is_said_once) {
    static std::atomic<unsigned> said{0};
    thunk::set_report([](const Error &) { ++said; });
    const Other first(card(0).bus_id()), second(card(1).bus_id());
    const auto one = first.allocate(kPage), two = second.allocate(kPage);
    ASSERT_EQ(one.address, two.address);
    EXPECT_EQ(&cards().look_up(one.address)->card(), &card(0));
    EXPECT_EQ(said, 1u);
    foreign().mapped(card(1), two.address, kPage);
    EXPECT_EQ(&cards().look_up(one.address)->card(), &card(0));
    EXPECT_EQ(said, 1u);
    thunk::set_report(nullptr);
}

TEST_F(ForeignTest, threads_that_map_ask_and_unmap_see_their_own_memory) {
    const Other other(card().bus_id());
    constexpr unsigned kThreads = 4, kTimes = 60;
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            for (unsigned time = 0; time < kTimes; ++time) {
                const auto memory = other.allocate((1 + time % 2) * kPage);
                const bool seen = (i + time) % 2 == 0;
                if (seen)
                    foreign().mapped(card(), memory.address, (1 + time % 2) * kPage);
                Region *region = cards().look_up(memory.address + 5);
                if (region && !foreign().still_there(*region))
                    region = cards().look_up(memory.address + 5);
                if (!region || region->base() != memory.address)
                    ++wrong;
                foreign().unmapping(card(), memory.address);
                // Another thread's search may hold it for a moment; the bookkeeping of the hooks tries again as well.
                until([&] { return other.unmap(memory); });
                foreign().unmapped(card(), memory.address);
                Other::call().device_memory_free(other.fd(), memory.handle);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0u);
}

} // namespace
