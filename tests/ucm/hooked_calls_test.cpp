// SPDX-License-Identifier: BSD-3-Clause
// The hooks and a program's memory: calls return what the library returns, and each mapping is known until its unmap.
#include "hooked_calls_fixture.h"

#include "gaudi/copy/mover.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

using namespace gaudi;
using namespace gaudi::test;

namespace {

using DeferredUnmap = HookedCallsTest;
using EarlyMapping = HookedCallsTest;
using HookedCall = HookedCallsTest;
using HookedMapping = HookedCallsTest;
using Notification = HookedCallsTest;

TEST_F(HookedMapping, known_with_address_and_size_until_unmap) {
    const int fd = open();
    ASSERT_GE(fd, 0);
    const std::uint64_t handle = m_calls.alloc(fd, 5 * kMiB, 0, false, false);
    ASSERT_NE(handle, 0u);
    EXPECT_TRUE(m_listener.ranges().empty()) << "the allocation has no address yet";
    const std::uint64_t address = m_calls.map(fd, handle, 0);
    ASSERT_NE(address, 0u);
    ASSERT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_listener.ranges()[0].base, address);
    EXPECT_EQ(m_listener.ranges()[0].length, 5 * kMiB);
    const Region *region = find_region(address);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->origin(), Region::Origin::hooked);
    EXPECT_EQ(&region->card(), &card());
    EXPECT_EQ(m_calls.unmap(fd, address), 0);
    EXPECT_TRUE(m_listener.ranges().empty());
    EXPECT_EQ(find_region(address), nullptr);
    EXPECT_EQ(m_calls.free(fd, handle), 0);
    EXPECT_EQ(m_calls.close(fd), 0);
    EXPECT_FALSE(Counters(card()).in_use());
}

TEST_F(HookedMapping, allocation_can_be_mapped_again) {
    const int fd = open();
    const std::uint64_t handle = m_calls.alloc(fd, kMiB, 0, false, false);
    for (int time = 0; time < 3; ++time) {
        const std::uint64_t address = m_calls.map(fd, handle, 0);
        EXPECT_EQ(m_listener.ranges().size(), 1u);
        EXPECT_EQ(m_calls.unmap(fd, address), 0);
    }
    EXPECT_EQ(m_calls.free(fd, handle), 0);
    EXPECT_EQ(m_listener.mapped_count(), 3u);
    EXPECT_EQ(m_listener.unmapped_count(), 3u);
}

TEST_F(HookedCall, makes_no_additional_driver_call) {
    const int fd = open();
    const auto use = [&] {
        const std::uint64_t handle = m_calls.alloc(fd, kMiB, 0, false, false);
        EXPECT_EQ(m_calls.unmap(fd, m_calls.map(fd, handle, 0)), 0);
        EXPECT_EQ(m_calls.free(fd, handle), 0);
    };
    use(); // the first mapping probes whether the card exports
    const Counters before(card());
    for (int time = 0; time < 100; ++time)
        use();
    const Counters after(card());
    EXPECT_EQ(after.calls() - before.calls(), 400u);
}

TEST_F(HookedCall, failure_returns_result_and_errno_of_the_library) {
    const int fd = open();
    errno = 0;
    EXPECT_EQ(m_calls.alloc(fd, 1ull << 60, 0, false, false),
              FrameworkProgram::call().device_memory_alloc(fd, 1ull << 60, 0, false, false));
    const int hooked_errno = (errno = 0, m_calls.unmap(fd, 12345), errno);
    const int real_errno = (errno = 0, FrameworkProgram::call().memory_unmap(fd, 12345), errno);
    EXPECT_EQ(hooked_errno, real_errno);
    EXPECT_EQ(m_calls.unmap(fd, 12345), FrameworkProgram::call().memory_unmap(fd, 12345));
    EXPECT_EQ(m_calls.free(fd, 99), FrameworkProgram::call().device_memory_free(fd, 99));
    EXPECT_EQ(m_calls.map(fd, 99, 0), 0u);
    EXPECT_EQ(m_calls.close(-1), FrameworkProgram::call().close(-1));
    EXPECT_EQ(m_calls.open(HLTHUNK_DEVICE_DONT_CARE, "nonsense"),
              FrameworkProgram::call().open(HLTHUNK_DEVICE_DONT_CARE, "nonsense"));
    errno = 77;
    EXPECT_EQ(m_calls.unmap(fd, m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0)), 0);
    EXPECT_EQ(errno, 77) << "success does not change errno";
}

class RefusedUnmap : public HookedCallsTest {
protected:
    static int refuse(int, std::uint64_t) {
        errno = EIO;
        return -EIO;
    }
};

TEST_F(RefusedUnmap, keeps_the_mapping_known) {
    RealCalls calls = real_calls();
    calls.memory_unmap = refuse;
    HookedCalls hooked(cards(), calls);
    const int fd = open();
    const std::uint64_t address = hooked.map(fd, hooked.alloc(fd, kMiB, 0, false, false), 0);
    EXPECT_EQ(hooked.unmap(fd, address), -EIO);
    ASSERT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_listener.ranges()[0].base, address);
    EXPECT_EQ(m_listener.unmapped_count(), 1u) << "listeners are notified before the library is called";
    EXPECT_EQ(m_calls.close(fd), 0);
}

TEST_F(RefusedUnmap, unseen_allocation_is_retried_each_time) {
    static unsigned refusals;
    RealCalls calls = real_calls();
    calls.memory_unmap = [](int fd, std::uint64_t address) {
        return refusals-- > 0 ? refuse(fd, address) : FrameworkProgram::call().memory_unmap(fd, address);
    };
    HookedCalls hooked(cards(), calls);
    const FrameworkProgram framework(card().bus_id());
    const std::uint64_t address = hooked.map(
        framework.fd(), FrameworkProgram::call().device_memory_alloc(framework.fd(), kMiB, 0, false, false), 0);
    refusals = 100'000;
    EXPECT_EQ(hooked.unmap(framework.fd(), address), -EIO);
    refusals = 2;
    EXPECT_EQ(hooked.unmap(framework.fd(), address), 0) << "a probe may have it exported for a moment";
}

class CloseDuringUnmap : public HookedCallsTest {
protected:
    static inline HookedCalls *s_calls = nullptr;

    static int close_and_refuse(int fd, std::uint64_t address) {
        if (HookedCalls *calls = std::exchange(s_calls, nullptr)) {
            EXPECT_EQ(calls->close(fd), 0); // as another thread may
            errno = EBADF;
            return -1;
        }
        return FrameworkProgram::call().memory_unmap(fd, address);
    }
};

TEST_F(CloseDuringUnmap, defers_nothing_into_the_next_session) {
    RealCalls calls = real_calls();
    calls.memory_unmap = close_and_refuse;
    HookedCalls hooked(cards(), calls);
    const int fd = open();
    const std::uint64_t address = hooked.map(fd, hooked.alloc(fd, kMiB, 0, false, false), 0);
    {
        const thunk::Fd registered = value(find_region(address)->dmabuf());
        s_calls = &hooked;
        EXPECT_EQ(hooked.unmap(fd, address), -1) << "the result of the library";
    }
    EXPECT_EQ(deferred_unmaps(), 0u);
    const int again = open();
    ASSERT_EQ(hooked.map(again, hooked.alloc(again, kMiB, 0, false, false), 0), address);
    EXPECT_NE(hooked.alloc(again, kMiB, 0, false, false), 0u); // retries deferred unmaps
    const HostBuffer host(kMiB);
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(address, host.address(), kMiB))) << "the mapping was removed";
    EXPECT_EQ(hooked.close(again), 0);
}

TEST_F(DeferredUnmap, free_of_handle_0_frees_nothing) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    thunk::Fd registered = value(look_up(memory.address)->dmabuf());
    EXPECT_EQ(m_calls.unmap(framework.fd(), memory.address), 0);
    EXPECT_NE(m_calls.free(framework.fd(), 0), 0);
    EXPECT_EQ(m_calls.free(framework.fd(), memory.handle), 0);
    value(registered.close());
    EXPECT_EQ(m_calls.free(framework.fd(), m_calls.alloc(framework.fd(), kMiB, 0, false, false)), 0);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

class DescriptorShortage : public HookedCallsTest {
protected:
    // The first call is that of discovery.
    DescriptorShortage() : HookedCallsTest("get_pci_bus_id_from_fd@0#2=EMFILE") {}
};

TEST_F(DescriptorShortage, card_is_known_when_it_has_passed) {
    const int fd = open();
    const std::uint64_t missed = m_calls.alloc(fd, kMiB, 0, false, false);
    ASSERT_NE(missed, 0u);
    ASSERT_EQ(Counters(card()).calls("get_pci_bus_id_from_fd"), 2u) << "the fault was not hit";
    EXPECT_NE(m_calls.map(fd, m_calls.alloc(fd, kMiB, 0, false, false), 0), 0u);
    EXPECT_EQ(m_listener.ranges().size(), 1u);
    EXPECT_EQ(m_calls.close(fd), 0);
    EXPECT_FALSE(Counters(card()).in_use());
}

TEST_F(EarlyMapping, found_by_probing) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    EXPECT_TRUE(m_listener.ranges().empty());
    Region *region = look_up(memory.address + 5);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->origin(), Region::Origin::probed);
    const std::uint64_t generation = region->generation();
    EXPECT_EQ(m_calls.unmap(framework.fd(), memory.address), 0) << "through the hook";
    EXPECT_NE(region->generation(), generation);
    EXPECT_EQ(m_calls.free(framework.fd(), memory.handle), 0);

    // The hooks see the mapping of an allocation that they did not see.
    const std::uint64_t handle = FrameworkProgram::call().device_memory_alloc(framework.fd(), kMiB, 0, false, false);
    const std::uint64_t address = m_calls.map(framework.fd(), handle, 0);
    EXPECT_TRUE(m_listener.ranges().empty()) << "the size is not known";
    EXPECT_NE(look_up(address), nullptr);
    EXPECT_EQ(m_calls.unmap(framework.fd(), address), 0);
}

TEST_F(DeferredUnmap, hooked_mapping_is_unmapped_after_deregistration) {
    const int fd = open();
    const std::uint64_t handle = m_calls.alloc(fd, kMiB, 0, false, false);
    const std::uint64_t address = m_calls.map(fd, handle, 0);
    thunk::Fd registered = value(find_region(address)->dmabuf()); // as an HCA holds it
    EXPECT_EQ(m_calls.unmap(fd, address), 0);
    EXPECT_EQ(m_calls.free(fd, handle), 0);
    EXPECT_EQ(deferred_unmaps(), 1u);
    EXPECT_EQ(look_up(address), nullptr);
    const std::uint64_t other = m_calls.alloc(fd, kMiB, 0, false, false);
    EXPECT_EQ(deferred_unmaps(), 1u) << "still registered";
    const std::uint64_t second = m_calls.map(fd, other, 0);
    EXPECT_NE(second, address) << "the address is in use until then";
    value(registered.close());
    EXPECT_EQ(m_calls.unmap(fd, second), 0);
    EXPECT_EQ(deferred_unmaps(), 0u);
    EXPECT_EQ(m_calls.free(fd, other), 0);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u) << "the memory was freed too";
    const std::uint64_t again = m_calls.alloc(fd, kMiB, 0, false, false);
    EXPECT_EQ(m_calls.map(fd, again, 0), address);
    EXPECT_NE(find_region(address), nullptr);
}

/// The driver writes a line to the kernel's log for each unmap that it refuses.
TEST_F(DeferredUnmap, is_tried_a_handful_of_times_while_a_nic_holds_the_memory) {
    const int fd = open();
    const std::uint64_t handle = m_calls.alloc(fd, kMiB, 0, false, false);
    const std::uint64_t address = m_calls.map(fd, handle, 0);
    thunk::Fd registered = value(find_region(address)->dmabuf());
    EXPECT_EQ(m_calls.unmap(fd, address), 0);
    EXPECT_EQ(m_calls.free(fd, handle), 0);
    const std::uint64_t before = Counters(card()).calls("memory_unmap");
    for (unsigned i = 0; i < 5000; ++i)
        ASSERT_EQ(m_calls.free(fd, m_calls.alloc(fd, kMiB, 0, false, false)), 0);
    EXPECT_LE(Counters(card()).calls("memory_unmap"), before + 30) << "of 10,000 opportunities";
    EXPECT_EQ(deferred_unmaps(), 1u);
    value(registered.close());
    const std::uint64_t all = m_calls.alloc(fd, 127 * kPage, 0, false, false); // of a card's 127 pages
    EXPECT_NE(all, 0u) << "memory that is needed is unmapped at once";
    EXPECT_EQ(deferred_unmaps(), 0u);
}

TEST_F(DeferredUnmap, refusal_because_of_the_programs_own_export_is_returned_soon) {
    const int fd = open();
    const std::uint64_t handle = m_calls.alloc(fd, kMiB, 0, false, false);
    const std::uint64_t address = m_calls.map(fd, handle, 0);
    const auto &driver = FrameworkProgram::call();
    const thunk::Fd exported(driver.device_mapped_memory_export_dmabuf_fd(fd, address, kMiB, 0, O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(exported);
    const std::uint64_t before = Counters(card()).calls("memory_unmap");
    EXPECT_EQ(m_calls.unmap(fd, address), -EINVAL);
    EXPECT_LE(Counters(card()).calls("memory_unmap"), before + 6);
    EXPECT_NE(find_region(address), nullptr) << "it is still mapped";
}

TEST_F(DeferredUnmap, early_mapping_is_unmapped_after_deregistration) {
    const FrameworkProgram framework(card().bus_id());
    const auto memory = framework.allocate(kMiB);
    thunk::Fd registered = value(look_up(memory.address)->dmabuf());
    EXPECT_EQ(m_calls.unmap(framework.fd(), memory.address), 0);
    EXPECT_EQ(m_calls.free(framework.fd(), memory.handle), 0);
    EXPECT_EQ(deferred_unmaps(), 1u);
    value(registered.close());
    EXPECT_EQ(m_calls.free(framework.fd(), m_calls.alloc(framework.fd(), kMiB, 0, false, false)), 0);
    EXPECT_EQ(deferred_unmaps(), 0u);
    EXPECT_EQ(Counters(card())["dram_used_bytes"], 0u);
}

/// Looks up other memory during a notification.
struct ProbingListener : MappingListener {
    ProbingListener(std::uint64_t gone_address, std::uint64_t new_address) : gone(gone_address), unknown(new_address) {}
    void mapped(const Region &region) override { probe(region); }
    void unmapping(const Region &region) override { probe(region); }
    void probe(const Region &notified) {
        ++notifications;
        EXPECT_EQ(look_up(notified.base()), &notified);
        if (Region *known = look_up(gone))
            confirm(*known);
        look_up(unknown);
    }

    const std::uint64_t gone, unknown;
    unsigned notifications = 0;
};

TEST_F(Notification, listener_may_probe_without_deadlock) {
    const FrameworkProgram framework(card().bus_id());
    const std::uint64_t seen = m_calls.map(framework.fd(), m_calls.alloc(framework.fd(), kMiB, 0, false, false), 0);
    const FrameworkProgram::Memory gone = framework.allocate(kMiB), unknown = framework.allocate(kMiB);
    ASSERT_NE(look_up(gone.address), nullptr);
    ASSERT_TRUE(framework.unmap(gone));
    ProbingListener listener(gone.address, unknown.address);
    LiveMappings::get().add_listener(cards(), listener);
    EXPECT_EQ(m_calls.unmap(framework.fd(), seen), 0);
    EXPECT_NE(m_calls.map(framework.fd(), m_calls.alloc(framework.fd(), kMiB, 0, false, false), 0), 0u);
    LiveMappings::get().remove_listener(listener);
    EXPECT_GE(listener.notifications, 3u);
    EXPECT_NE(look_up(unknown.address), nullptr) << "found outside of a notification";
}

} // namespace
