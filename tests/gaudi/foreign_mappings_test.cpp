// SPDX-License-Identifier: BSD-3-Clause
// Device memory that a framework mapped: found with its exact start and length, copied, exported, and forgotten when it is
// unmapped.
#include "framework_program.h"

#include "gaudi/copy/mover.h"
#include "gaudi/memory/foreign_mappings.h"
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
    using Memory = FrameworkProgram::Memory;

    static ForeignMappings &mappings(Card &on = card()) { return value(on.open())->get<ForeignMappings>(); }
    /// Notes an allocation and its mapping, as the memory hooks do.
    static void note(const Memory &memory, std::uint64_t size, Card &on = card()) {
        mappings(on).note_allocation(memory.handle, size);
        mappings(on).note_mapping(memory.address, memory.handle);
    }
    static void expect_found(const Memory &memory, std::uint64_t length, const Card &on) {
        for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, length / 2, length - 1}) {
            Region *region = look_up(memory.address + offset);
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

using ForeignUnmap = ForeignTest;
using HookedMapping = ForeignTest;
using Probe = ForeignTest;
using ProbedMapping = ForeignTest;

TEST_F(Probe, host_address_makes_no_driver_call) {
    const FrameworkProgram framework(card().bus_id());
    const int local = 0;
    EXPECT_EQ(look_up(reinterpret_cast<std::uint64_t>(&local)), nullptr);
    EXPECT_EQ(look_up(0), nullptr);
    EXPECT_EQ(look_up(UINT64_MAX), nullptr);
    EXPECT_FALSE(card().is_open());
    EXPECT_TRUE(cards().is_card_address(card().info().dram_base_address));
    EXPECT_FALSE(cards().is_card_address(card().info().dram_base_address - 1));
}

TEST_F(Probe, any_address_of_an_unseen_mapping_finds_it) {
    const FrameworkProgram framework(card().bus_id());
    const auto one = framework.allocate(kMiB), three = framework.allocate(3 * kPage),
               two = framework.allocate(kPage + 1);
    expect_found(three, 3 * kPage, card());
    expect_found(one, kPage, card());
    expect_found(two, 2 * kPage, card());
}

TEST_F(Probe, mappings_beside_own_memory_are_found) {
    const FrameworkProgram framework(card().bus_id());
    const auto before = framework.allocate(2 * kPage);
    const std::uint64_t own = value(allocate(card(), {.length = kMiB}));
    const auto after = framework.allocate(kPage, find_region(own)->base() + find_region(own)->size());
    expect_found(after, kPage, card());
    expect_found(before, 2 * kPage, card());
    EXPECT_EQ(find_region(own)->origin(), Region::Origin::own);
}

TEST_F(Probe, unmapped_addresses_find_nothing) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kPage);
    EXPECT_EQ(look_up(memory.address + kPage), nullptr);
    EXPECT_EQ(look_up(memory.address + 100 * kPage), nullptr);
    EXPECT_EQ(look_up(card().address_range().base + card().address_range().length - 1), nullptr);
}

TEST_F(Probe, driver_without_exports_hides_unseen_mappings_only) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kPage);
    EXPECT_EQ(look_up(memory.address), nullptr);
    note(memory, kPage);
    Region *seen = look_up(memory.address);
    ASSERT_NE(seen, nullptr) << "the hooks saw the mapping";
    EXPECT_FALSE(seen->exportable());
}

TEST_F(Probe, short_descriptor_shortage_does_not_make_device_memory_host_memory) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd#1=EMFILE;"
                            "device_mapped_memory_export_dmabuf_fd#2=EMFILE");
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    EXPECT_NE(look_up(memory.address), nullptr);
}

TEST_F(Probe, lasting_descriptor_shortage_is_reported_once_and_ends_the_search) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EMFILE");
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(3 * kPage);
    const thunk::Reported reported;
    EXPECT_EQ(look_up(memory.address + 2 * kPage), nullptr);
    ASSERT_EQ(thunk::Reported::errors().size(), 1u);
    EXPECT_EQ(thunk::Reported::errors()[0].code, EMFILE);
}

TEST_F(Probe, finds_mappings_while_the_arena_takes_and_gives_back_blocks) {
    const FrameworkProgram framework(card().bus_id());
    std::atomic<bool> over{false};
    std::atomic<unsigned> times{0};
    std::thread own([&] { // blocks that are not kept
        for (; !over; ++times)
            free_on(card(), value(allocate(card(), {.length = 3 * kPage})));
    });
    unsigned lost = 0;
    for (unsigned i = 0; i < 1000 || times < 1000; ++i) {
        const auto memory = framework.allocate(kMiB);
        Region *found = look_up(memory.address);
        EXPECT_TRUE(framework.free(memory));
        if (!found)
            ++lost;
        else
            EXPECT_FALSE(confirm(*found)); // so that the next mapping is searched for
    }
    over = true;
    own.join();
    EXPECT_EQ(lost, 0u);
}

TEST_F(Probe, address_on_two_cards_belongs_to_the_first_and_is_reported_once) {
    const thunk::Reported reported;
    const FrameworkProgram first(card(0).bus_id()), second(card(1).bus_id());
    const auto one = first.allocate(kPage), two = second.allocate(kPage);
    ASSERT_EQ(one.address, two.address);
    EXPECT_EQ(&look_up(one.address)->card(), &card(0));
    EXPECT_EQ(thunk::Reported::errors().size(), 1u);
    note(two, kPage, card(1));
    EXPECT_EQ(&look_up(one.address)->card(), &card(0));
    EXPECT_EQ(thunk::Reported::errors().size(), 1u);
}

TEST_F(ProbedMapping, owner_may_unmap_at_any_time) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kPage);
    Region *region = look_up(memory.address);
    ASSERT_NE(region, nullptr);
    EXPECT_TRUE(region->exportable());
    EXPECT_EQ(region->export_descriptor(), -1) << "a kept export would hold the mapping";
    EXPECT_EQ(region->hold_import(cards().all().size()), nullptr);
    EXPECT_TRUE(confirm(*region));
    EXPECT_TRUE(framework.free(memory));
    EXPECT_FALSE(confirm(*region));
    EXPECT_EQ(look_up(memory.address), nullptr);
}

TEST_F(ProbedMapping, stays_known_while_a_shortage_hides_the_answer) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kPage);
    Region *region = look_up(memory.address);
    ASSERT_NE(region, nullptr);
    const std::uint64_t generation = region->generation();
    {
        rlimit limit{};
        ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
        const rlim_t usual = std::exchange(limit.rlim_cur, 3); // no descriptor for the export that would confirm it
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        EXPECT_TRUE(confirm(*region));
        limit.rlim_cur = usual;
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    EXPECT_EQ(region->generation(), generation);
    EXPECT_TRUE(framework.free(memory));
    EXPECT_FALSE(confirm(*region)) << "the driver answers again";
    EXPECT_NE(region->generation(), generation);
}

TEST_F(ProbedMapping, larger_replacement_is_found_from_both_parts) {
    const FrameworkProgram framework(card().bus_id());
    const auto small = framework.allocate(kPage);
    ASSERT_NE(look_up(small.address), nullptr);
    ASSERT_TRUE(framework.free(small));
    const auto large = framework.allocate(2 * kPage);
    ASSERT_EQ(large.address, small.address);
    Region *region = look_up(large.address + kPage);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->base(), large.address);
    EXPECT_EQ(region->size(), 2 * kPage);
    EXPECT_EQ(look_up(large.address), region);
}

TEST_F(ProbedMapping, smaller_replacement_is_noticed) {
    const FrameworkProgram framework(card().bus_id());
    const auto large = framework.allocate(2 * kPage);
    Region *region = look_up(large.address);
    ASSERT_NE(region, nullptr);
    ASSERT_TRUE(framework.free(large));
    const auto small = framework.allocate(kPage);
    ASSERT_EQ(large.address, small.address);
    EXPECT_FALSE(confirm(*region));
    region = look_up(small.address);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->size(), kPage);
}

TEST_F(ProbedMapping, is_copied_and_exported_like_own_memory) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kPage);
    const HostBuffer host(16 * kMiB);
    const Bytes sent = pattern(8 * kMiB, 3);
    host.write(0, sent);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(memory.address + 12345, host.address(), sent.size())));
    EXPECT_TRUE(Window(*look_up(memory.address)).read(memory.address + 12345, sent.size()) == sent);
    ASSERT_TRUE(is_ok(mover.copy_now(host.address(8 * kMiB), memory.address + 12345, sent.size())));
    EXPECT_TRUE(host.read(8 * kMiB, sent.size()) == sent);
    Region *region = look_up(memory.address);
    const thunk::Fd exported = value(region->dmabuf());
    EXPECT_EQ(lseek(exported.get(), 0, SEEK_END), static_cast<off_t>(kPage));
    EXPECT_TRUE(region->was_exported());
}

TEST_F(HookedMapping, has_the_length_of_its_allocation) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(5 * kMiB + 1);
    note(memory, 5 * kMiB + 1);
    expect_found(memory, 5 * kMiB + 1, card());
    EXPECT_EQ(look_up(memory.address)->origin(), Region::Origin::hooked);
    const thunk::Fd exported = value(look_up(memory.address)->dmabuf());
    EXPECT_GE(lseek(exported.get(), 0, SEEK_END), static_cast<off_t>(5 * kMiB + 1));
}

TEST_F(ForeignUnmap, deferred_mapping_is_not_found_and_ends_at_the_next_try) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kPage);
    note(memory, kPage);
    Region *region = find_region(memory.address);
    const std::uint64_t generation = region->generation();
    thunk::Fd registered = value(region->dmabuf()); // as an HCA holds it
    const auto unmap = mappings().begin_unmap(memory.address);
    ASSERT_TRUE(unmap);
    EXPECT_TRUE(unmap->hooked);
    EXPECT_TRUE(unmap->exported);
    EXPECT_NE(region->generation(), generation);
    EXPECT_FALSE(mappings().begin_unmap(memory.address)) << "another thread unmaps it";
    ASSERT_FALSE(framework.unmap(memory));
    EXPECT_TRUE(mappings().end_unmap(memory.address, *unmap, false));
    EXPECT_EQ(mappings().deferred_unmaps(), 1u);
    EXPECT_EQ(look_up(memory.address), nullptr) << "although the driver has it mapped";
    value(registered.close());
    mappings().retry_deferred_unmaps();
    EXPECT_EQ(mappings().deferred_unmaps(), 0u);
    EXPECT_FALSE(framework.unmap(memory)) << "it is unmapped already";
}

TEST_F(ForeignUnmap, refused_unmap_makes_the_mapping_known_again) {
    const FrameworkProgram framework(card().bus_id());
    const auto hooked = framework.allocate(kPage), probed = framework.allocate(kPage);
    note(hooked, kPage);
    ASSERT_NE(look_up(probed.address), nullptr);
    for (const Memory &memory : {hooked, probed}) {
        const auto unmap = mappings().begin_unmap(memory.address);
        ASSERT_TRUE(unmap);
        EXPECT_EQ(find_region(memory.address), nullptr);
        EXPECT_FALSE(mappings().end_unmap(memory.address, *unmap, false));
        EXPECT_NE(look_up(memory.address), nullptr);
    }
    EXPECT_EQ(mappings().deferred_unmaps(), 0u);
}

TEST_F(ForeignUnmap, mapping_published_by_a_probe_meanwhile_is_forgotten) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kPage);
    note(memory, kPage);
    const auto unmap = mappings().begin_unmap(memory.address);
    ASSERT_TRUE(unmap);
    mappings().publish({memory.address, kPage}, Region::Origin::probed); // its exports were tried before the unmap
    ASSERT_TRUE(framework.unmap(memory));
    EXPECT_FALSE(mappings().end_unmap(memory.address, *unmap, true));
    ASSERT_EQ(find_region(memory.address), nullptr);
    EXPECT_EQ(look_up(memory.address), nullptr);
}

TEST_F(ForeignUnmap, late_end_does_not_end_the_unmap_of_the_next_mapping) {
    const FrameworkProgram framework(card().bus_id());
    const auto first = framework.allocate(kPage);
    note(first, kPage);
    const auto first_unmap = mappings().begin_unmap(first.address);
    ASSERT_TRUE(first_unmap);
    ASSERT_TRUE(framework.unmap(first));
    // Another thread gets the address and unmaps it, before the first thread has noted the end of its own call.
    const auto second = framework.allocate(kPage);
    ASSERT_EQ(second.address, first.address);
    note(second, kPage);
    const thunk::Fd registered = value(find_region(second.address)->dmabuf()); // as an HCA holds it
    const auto second_unmap = mappings().begin_unmap(second.address);
    ASSERT_TRUE(second_unmap);
    EXPECT_FALSE(mappings().end_unmap(first.address, *first_unmap, true));
    ASSERT_FALSE(framework.unmap(second));
    EXPECT_TRUE(mappings().end_unmap(second.address, *second_unmap, false)) << "the unmap is not deferred";
    EXPECT_EQ(mappings().deferred_unmaps(), 1u);
}

TEST_F(ForeignTest, threads_that_map_probe_and_unmap_find_their_own_memory) {
    const FrameworkProgram framework(card().bus_id());
    constexpr unsigned kThreads = 4, kTimes = 60;
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            for (unsigned time = 0; time < kTimes; ++time) {
                const std::uint64_t size = (1 + time % 2) * kPage;
                const auto memory = framework.allocate(size);
                if ((i + time) % 2 == 0)
                    note(memory, size);
                Region *region = look_up(memory.address + 5);
                if (region && !confirm(*region))
                    region = look_up(memory.address + 5);
                if (!region || region->base() != memory.address)
                    ++wrong;
                const auto unmap = mappings().begin_unmap(memory.address);
                // The probe of another thread may have it exported for a moment; the memory hooks try again as well.
                until([&] { return framework.unmap(memory); });
                if (unmap)
                    mappings().end_unmap(memory.address, *unmap, true);
                FrameworkProgram::call().device_memory_free(framework.fd(), memory.handle);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0u);
}

} // namespace
