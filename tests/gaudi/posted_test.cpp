// SPDX-License-Identifier: BSD-3-Clause
// A NIC's writes to exported memory may still be in flight when a copy reads it: the engine flushes them to the card
// first.
#include "framework_program.h"
#include "machine.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"
#include "gaudi/memory/importers.h"

#include <gmock/gmock.h>

#include <fcntl.h>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class PostedWrites : public GaudiTest {
protected:
    PostedWrites() { set("SOFTGAUDI_QUIRKS", "posted"); }

    /// Writes as a NIC would.
    static void write(const thunk::Fd &exported, std::uint64_t offset, const Bytes &bytes) {
        ASSERT_EQ(pwrite(exported.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
                  static_cast<ssize_t>(bytes.size()));
    }
    /// Of copies: one more is tried before the first export.
    static std::uint64_t flushes(std::size_t index = 0) {
        return Counters(card(index)).calls("cs_flush_pci_hbw_writes") - 1;
    }
    static std::uint64_t device(std::size_t index = 0) { return value(allocate(card(index), {.length = kMiB})); }
};

TEST_F(PostedWrites, copy_to_host_memory_sees_them) {
    Mover mover(cards());
    const HostBuffer host(4 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device();
    Region &region = *find_region(memory);
    const auto exported = value(region.dmabuf());
    for (unsigned round = 0; round < 20; ++round) {
        const Bytes sent = pattern(10'000, round);
        write(exported, memory - region.base() + 1, sent);
        HostRange *known = round % 2 == 0 ? &range : nullptr; // one copy by the card itself, one staged
        ASSERT_TRUE(is_ok(run_copy(mover, host.address(5), memory + 1, sent.size(), known)));
        ASSERT_TRUE(host.read(5, sent.size()) == sent) << round;
    }
    EXPECT_EQ(flushes(), 20u);
}

TEST_F(PostedWrites, copies_to_the_same_and_another_card_see_them) {
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = device(), elsewhere = device(1);
    Region &region = *find_region(memory);
    const auto exported = value(region.dmabuf());
    const Bytes first = pattern(10'000, 1), second = pattern(10'000, 2);
    write(exported, memory - region.base(), first);
    ASSERT_TRUE(is_ok(mover.copy_now(memory + 500'000, memory, first.size())));
    write(exported, memory - region.base(), second);
    ASSERT_TRUE(is_ok(mover.copy_now(elsewhere, memory, second.size())));
    ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory + 500'000, first.size())));
    EXPECT_TRUE(host.read(0, first.size()) == first);
    ASSERT_TRUE(is_ok(mover.copy_now(host.address(), elsewhere, second.size())));
    EXPECT_TRUE(host.read(0, second.size()) == second);
    EXPECT_EQ(flushes(1), 0u) << "nothing of the other card was exported";
}

TEST_F(PostedWrites, flush_is_needed_once_a_descriptor_was_handed_out) {
    const auto block = []() -> Region & { return *find_region(value(allocate(card(), {.length = kPage}))); };
    Region &queried = block();
    EXPECT_TRUE(queried.exportable());
    EXPECT_FALSE(queried.needs_flush()) << "the probe of an export hands out no descriptor";
    value(queried.dmabuf());
    EXPECT_TRUE(queried.needs_flush());
    Region &numbered = block();
    ASSERT_NE(&numbered, &queried);
    EXPECT_GE(numbered.export_descriptor(), 0);
    EXPECT_FALSE(numbered.needs_flush()) << "a number is no descriptor, and keys are packed for each message";
}

TEST_F(PostedWrites, source_that_was_not_exported_costs_no_flush) {
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = device();
    ASSERT_TRUE(is_ok(mover.copy_now(memory, host.address(), 1000)));
    ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory, 1000)));
    EXPECT_EQ(flushes(), 0u);
    value(find_region(memory)->dmabuf());
    ASSERT_TRUE(is_ok(mover.copy_now(memory, host.address(), 1000)));
    EXPECT_EQ(flushes(), 0u) << "only a source is flushed";
    ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory, 1000)));
    EXPECT_EQ(flushes(), 1u);
}

TEST_F(PostedWrites, export_without_importing_device_costs_no_flush) {
    machine_has_nic = false;
    ASSERT_FALSE(importer_may_exist());
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = device();
    value(find_region(memory)->dmabuf());
    for (int i = 0; i < 10; ++i)
        ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory, 8 * kKiB)));
    EXPECT_EQ(flushes(), 0u);
    machine_has_nic = true; // a NIC was plugged in, and its user takes a descriptor
    value(find_region(memory)->dmabuf());
    for (int i = 0; i < 10; ++i)
        ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory, 8 * kKiB)));
    EXPECT_EQ(flushes(), 10u);
}

TEST_F(PostedWrites, failed_flush_fails_the_copy) {
    set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes#2+=EIO"); // the first is tried with the first export
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = device();
    value(find_region(memory)->dmabuf());
    const auto failed = mover.copy_now(host.address(), memory, 1000);
    EXPECT_EQ(code_of(failed), EIO);
    EXPECT_THAT(text_of(failed), HasSubstr("cs_flush_pci_hbw_writes"));
}

// ---- in each mode of completion, on each way that a copy takes

class PostedWritesByMode : public PostedWrites, public ::testing::WithParamInterface<bool> {
protected:
    PostedWritesByMode() {
        change_settings([](Settings &settings) {
            settings.completion = GetParam() ? CompletionMode::driver : CompletionMode::flag;
        });
    }

    /// Copies of each kind from the memory at `source`, each after a write of the NIC to `exported`, to see the write.
    static void expect_seen(std::uint64_t source, const thunk::Fd &exported, std::uint64_t offset) {
        Mover mover(cards());
        const HostBuffer host(2 * kMiB);
        HostRange range(host.address(), host.size(), cards().all().size());
        const std::uint64_t same = device(0), other = device(1);
        const auto fetch = [&](std::uint64_t from, std::size_t length) { // that memory was never exported
            value(mover.copy_now(host.address(kMiB), from, length));
            return host.read(kMiB, length);
        };
        std::uint64_t seed = 0;
        for (const std::size_t length : {100u, 20'000u, 700'000u}) { // bounced, staged or mapped, large
            const auto renew = [&] {
                const Bytes bytes = pattern(length, ++seed);
                write(exported, offset, bytes);
                return bytes;
            };
            Bytes sent = renew();
            ASSERT_TRUE(is_ok(run_copy(mover, host.address(), source, length, &range)));
            EXPECT_TRUE(host.read(0, length) == sent) << "registered " << length;
            sent = renew();
            ASSERT_TRUE(is_ok(run_copy(mover, host.address(), source, length)));
            EXPECT_TRUE(host.read(0, length) == sent) << "not registered " << length;
            sent = renew();
            ASSERT_TRUE(is_ok(mover.copy_now(host.address(), source, length)));
            EXPECT_TRUE(host.read(0, length) == sent) << "blocking " << length;
            sent = renew();
            ASSERT_TRUE(is_ok(run_copy(mover, same, source, length)));
            EXPECT_TRUE(fetch(same, length) == sent) << "on the card " << length;
            sent = renew();
            ASSERT_TRUE(is_ok(run_copy(mover, other, source, length)));
            EXPECT_TRUE(fetch(other, length) == sent) << "to another card " << length;
        }
    }
};

TEST_P(PostedWritesByMode, every_kind_of_copy_sees_them) {
    const std::uint64_t memory = device();
    Region &region = *find_region(memory);
    expect_seen(memory, value(region.dmabuf()), memory - region.base());
}

TEST_P(PostedWritesByMode, foreign_memory_that_its_owner_exported_is_flushed) {
    const FrameworkProgram framework(card().bus_id());
    const std::uint64_t memory = framework.allocate(kPage).address;
    const thunk::Fd exported(FrameworkProgram::call().device_mapped_memory_export_dmabuf_fd(
        framework.fd(), memory, kPage, 0, O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(exported);
    expect_seen(memory, exported, 0);
}

/// Probed memory is confirmed at each copy, and would look for drivers each time.
TEST_F(PostedWrites, copies_of_foreign_memory_rarely_look_for_drivers) {
    machine_has_nic = false;
    const FrameworkProgram framework(card().bus_id());
    const std::uint64_t memory = framework.allocate(kPage).address;
    Mover mover(cards());
    const HostBuffer host(kMiB);
    ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory, 1000)));
    ASSERT_EQ(find_region(memory)->origin(), Region::Origin::probed);
    constexpr unsigned kCopies = 500;
    const unsigned before = looks_at_machine;
    for (unsigned i = 0; i < kCopies; ++i)
        ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory, 1000)));
    EXPECT_LT(looks_at_machine - before, kCopies); // one look is six calls, each 100 ms
    EXPECT_EQ(flushes(), 0u);
    machine_has_nic = true; // the driver of a NIC was loaded
    while (flushes() == 0)
        ASSERT_TRUE(is_ok(mover.copy_now(host.address(), memory, 1000)));
}

TEST_P(PostedWritesByMode, failed_flush_fails_the_copy_and_no_other) {
    set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes#2=EIO"); // the first is tried with the first export
    Mover mover(cards());
    const HostBuffer host(2 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device();
    Region &region = *find_region(memory);
    const auto exported = value(region.dmabuf());
    const Bytes sent = pattern(700'000, 1);
    write(exported, memory - region.base(), sent);
    EXPECT_EQ(code_of(run_copy(mover, host.address(), memory, sent.size(), &range)), EIO);
    ASSERT_TRUE(is_ok(run_copy(mover, host.address(), memory, sent.size(), &range)));
    EXPECT_TRUE(host.read(0, sent.size()) == sent);
}

INSTANTIATE_TEST_SUITE_P(, PostedWritesByMode, ::testing::Bool(),
                         [](const auto &mode) { return mode.param ? "driver" : "flag"; });

class RefusedFlush : public PostedWrites, public ::testing::WithParamInterface<const char *> {};

TEST_P(RefusedFlush, nothing_is_exported) {
    set("SOFTGAUDI_FAULTS", std::string("cs_flush_pci_hbw_writes=") + GetParam());
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = device();
    EXPECT_FALSE(find_region(memory)->exportable()) << "UCX stages it";
    EXPECT_THAT(find_region(memory)->why_no_export(), HasSubstr("hlthunk_cs_flush_pci_hbw_writes"));
    EXPECT_TRUE(is_ok(mover.copy_now(host.address(), memory, kMiB)));
}

INSTANTIATE_TEST_SUITE_P(, RefusedFlush, ::testing::Values("EIO", "EOPNOTSUPP"),
                         [](const auto &error) { return std::string(error.param); });

TEST_F(PostedWrites, library_without_a_flush_exports_nothing) {
    set("GAUDI_THUNK", SOFTGAUDI_WITHOUT_FLUSH);
    Mover mover(cards());
    const HostBuffer host(kMiB);
    const std::uint64_t memory = device();
    EXPECT_FALSE(find_region(memory)->exportable()) << "UCX stages it";
    EXPECT_THAT(find_region(memory)->why_no_export(), HasSubstr("hlthunk_cs_flush_pci_hbw_writes"));
    EXPECT_TRUE(is_ok(mover.copy_now(memory, host.address(), kMiB)));
    EXPECT_TRUE(is_ok(mover.copy_now(host.address(), memory, kMiB)));
}

} // namespace
