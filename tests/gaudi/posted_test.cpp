// SPDX-License-Identifier: BSD-3-Clause
// What a NIC wrote into exported memory may be on its way when a copy reads it: the card is made to see it first.
#include "engine.h"
#include "machine.h"

#include "gaudi/importers.h"
#include "gaudi/mover.h"

using namespace gaudi;
using namespace gaudi::test;

namespace {

class PostedWrites : public GaudiTest {
protected:
    PostedWrites() { set("SOFTGAUDI_QUIRKS", "posted"); }

    /// As a NIC would.
    static void write(const thunk::Fd &exported, std::uint64_t offset, const Bytes &bytes) {
        ASSERT_EQ(pwrite(exported.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
                  static_cast<ssize_t>(bytes.size()));
    }
    static std::uint64_t flushes(std::size_t index = 0) {
        return Counters(card(index)).calls("cs_flush_pci_hbw_writes");
    }
    static std::uint64_t device(std::size_t index = 0) { return value(card(index).arena().allocate({.length = kMiB})); }
    static bool finish(Mover &mover) {
        return until([&] {
            mover.progress();
            return mover.outstanding() == 0;
        });
    }
};

TEST_F(PostedWrites, a_copy_from_exported_memory_sees_them) {
    Mover mover(cards());
    const HostMemory host(4 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device();
    Region &region = *cards().find(memory);
    const auto exported = value(region.dmabuf());
    for (unsigned round = 0; round < 20; ++round) {
        const Bytes sent = pattern(10'000, round);
        write(exported, memory - region.base() + 1, sent);
        HostRange *known = round % 2 == 0 ? &range : nullptr; // by the card itself, and staged
        ASSERT_EQ(mover.post({host.address(5), memory + 1, sent.size(), known, [](void *, int) {}, nullptr}),
                  Mover::Posted::started);
        ASSERT_TRUE(finish(mover));
        ASSERT_TRUE(host.read(5, sent.size()) == sent) << round;
    }
    EXPECT_EQ(flushes(), 20u);
}

TEST_F(PostedWrites, copies_on_the_card_and_to_another_card_see_them_too) {
    Mover mover(cards());
    const HostMemory host(kMiB);
    const std::uint64_t memory = device(), elsewhere = device(1);
    Region &region = *cards().find(memory);
    const auto exported = value(region.dmabuf());
    const Bytes first = pattern(10'000, 1), second = pattern(10'000, 2);
    write(exported, memory - region.base(), first);
    ASSERT_EQ(mover.copy_now(memory + 500'000, memory, first.size()), 0);
    write(exported, memory - region.base(), second);
    ASSERT_EQ(mover.copy_now(elsewhere, memory, second.size()), 0);
    ASSERT_EQ(mover.copy_now(host.address(), memory + 500'000, first.size()), 0);
    EXPECT_TRUE(host.read(0, first.size()) == first);
    ASSERT_EQ(mover.copy_now(host.address(), elsewhere, second.size()), 0);
    EXPECT_TRUE(host.read(0, second.size()) == second);
    EXPECT_EQ(flushes(1), 0u) << "nothing of the other card was exported";
}

TEST_F(PostedWrites, block_needs_flushes_once_a_descriptor_was_handed_out) {
    const auto block = []() -> Region & { return *cards().find(value(card().arena().allocate({.length = kPage}))); };
    Region &queried = block();
    EXPECT_TRUE(queried.exportable());
    EXPECT_FALSE(queried.needs_flush()) << "to probe the driver hands nothing out";
    value(queried.dmabuf());
    EXPECT_TRUE(queried.needs_flush());
    Region &numbered = block();
    ASSERT_NE(&numbered, &queried);
    EXPECT_GE(numbered.export_descriptor(), 0);
    EXPECT_FALSE(numbered.needs_flush()) << "a number is no descriptor, and keys are packed for every message";
}

TEST_F(PostedWrites, memory_that_nobody_else_can_write_costs_no_flush) {
    Mover mover(cards());
    const HostMemory host(kMiB);
    const std::uint64_t memory = device();
    ASSERT_EQ(mover.copy_now(memory, host.address(), 1000), 0);
    ASSERT_EQ(mover.copy_now(host.address(), memory, 1000), 0);
    EXPECT_EQ(flushes(), 0u);
    value(cards().find(memory)->dmabuf());
    ASSERT_EQ(mover.copy_now(memory, host.address(), 1000), 0);
    EXPECT_EQ(flushes(), 0u) << "it is the source that counts";
    ASSERT_EQ(mover.copy_now(host.address(), memory, 1000), 0);
    EXPECT_EQ(flushes(), 1u);
}

TEST_F(PostedWrites, exported_memory_costs_no_flush_where_no_device_can_import_it) {
    machine_has_nic = false;
    ASSERT_FALSE(importer_may_exist());
    Mover mover(cards());
    const HostMemory host(kMiB);
    const std::uint64_t memory = device();
    value(cards().find(memory)->dmabuf());
    for (int i = 0; i < 10; ++i)
        ASSERT_EQ(mover.copy_now(host.address(), memory, 8 * kKiB), 0);
    EXPECT_EQ(flushes(), 0u);
    machine_has_nic = true; // it was plugged in, and its user takes a descriptor
    value(cards().find(memory)->dmabuf());
    for (int i = 0; i < 10; ++i)
        ASSERT_EQ(mover.copy_now(host.address(), memory, 8 * kKiB), 0);
    EXPECT_EQ(flushes(), 10u);
}

TEST_F(PostedWrites, a_flush_that_fails_fails_the_copy) {
    set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes=EIO");
    Mover mover(cards());
    const HostMemory host(kMiB);
    const std::uint64_t memory = device();
    value(cards().find(memory)->dmabuf());
    EXPECT_EQ(mover.copy_now(host.address(), memory, 1000), EIO);
    EXPECT_NE(mover.problem().find("cs_flush_pci_hbw_writes"), std::string::npos) << mover.problem();
}

} // namespace
