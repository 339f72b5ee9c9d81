// SPDX-License-Identifier: BSD-3-Clause
// Host memory that the framework has mapped or allocated stays so whatever the product copies: SynapseAI counts no
// references, so that a single synHostUnmap would take it away.
#include "synapse_fixture.h"

#include "gaudi/copy/mover.h"
#include "gaudi/engine_user.h"
#include "gaudi/framework/synapse_stream.h"
#include "gaudi/host/host_cache.h"

#include <gmock/gmock.h>

#include <sys/mman.h>

using namespace gaudi;
using namespace gaudi::test;

namespace {

constexpr std::uint64_t kSize = 4 * kMiB;

class FrameworkHostMemory : public SynapseTest {
protected:
    /// Memory as PyTorch's pinned tensors have it.
    unsigned char *pin(std::uint64_t size = kSize) const {
        void *memory = nullptr;
        require_success(find_function<vendor::synHostMalloc>("synHostMalloc")(0, size, 0, &memory));
        return static_cast<unsigned char *>(memory);
    }
    std::size_t count_mappings() const {
        return find_function<standin::standin_host_mappings>("standin_host_mappings")();
    }
    static std::uint64_t address(const void *memory) { return reinterpret_cast<std::uint64_t>(memory); }
    static bool exists(void *memory, std::uint64_t size = kSize) { return msync(memory, size, MS_ASYNC) == 0; }

    /// Whether the framework's own copy from the memory works.
    static ::testing::AssertionResult framework_copies(const void *memory, std::uint64_t to) {
        const auto stream = value(SynapseStream::create(*Synapse::loaded()));
        return is_ok(stream->copy(vendor::HOST_TO_DRAM, to, address(memory), kSize));
    }
    /// One registration, for one copy.
    static void copy_registered(std::uint64_t device, std::uint64_t host) {
        Mover mover(cards());
        HostRange registered(host, kSize, cards().all().size(), HostRange::Residency::evictable);
        ASSERT_TRUE(is_ok(run_copy(mover, device, host, kSize, &registered)));
    }
    /// Copies all of it to the card and back in every way that the product has.
    static void copy_in_every_way(Mover &mover, std::uint64_t device, std::uint64_t host) {
        const Bytes sent = pattern(kSize, 21);
        std::memcpy(reinterpret_cast<void *>(host), sent.data(), kSize);
        for (const std::uint64_t length : {std::uint64_t{100}, 64 * kKiB, kSize}) {
            HostRange registered(host, kSize, cards().all().size(), HostRange::Residency::evictable);
            for (int i = 0; i < 3; ++i) { // the first copies of a range are staged by every engine
                ASSERT_TRUE(is_ok(run_copy(mover, device, host, length, &registered)));
                ASSERT_TRUE(is_ok(run_copy(mover, host, device, length, &registered)));
                ASSERT_TRUE(is_ok(run_copy(mover, device, host, length)));
                ASSERT_TRUE(is_ok(run_copy(mover, host, device, length)));
            }
            ASSERT_TRUE(is_ok(mover.copy_now(device, host, length)));
            ASSERT_TRUE(is_ok(mover.copy_now(host, device, length)));
        }
        EXPECT_STREQ(started_engine(card())->name(), "synapse");
        HostCache::forget(host, kSize);
        ASSERT_TRUE(is_ok(run_copy(mover, device, host, kSize))); // drops what was forgotten
        HostCache::forget(host, kSize);
        EXPECT_TRUE(Bytes(reinterpret_cast<unsigned char *>(host), reinterpret_cast<unsigned char *>(host) + kSize) ==
                    sent);
    }
};

TEST_F(FrameworkHostMemory, pinned_tensor_survives_copies) {
    acquire();
    HostCache::get().enable();
    unsigned char *tensor = pin();
    const std::uint64_t device = allocate(kSize);
    copy_registered(device, address(tensor));
    ASSERT_TRUE(exists(tensor)) << "the end of a registration freed the framework's memory";
    {
        Mover mover(cards());
        copy_in_every_way(mover, device, address(tensor));
    }
    ASSERT_TRUE(exists(tensor));
    EXPECT_TRUE(framework_copies(tensor, device));
}

TEST_F(FrameworkHostMemory, mapping_of_the_framework_survives_copies) {
    acquire();
    HostCache::get().enable();
    const HostBuffer host(kSize);
    ASSERT_EQ(find_function<vendor::synHostMap>("synHostMap")(0, kSize, host.data()), vendor::synSuccess);
    const std::uint64_t device = allocate(kSize);
    copy_registered(device, host.address());
    EXPECT_TRUE(framework_copies(host.data(), device)) << "the end of a registration unmapped the framework's memory";
    {
        Mover mover(cards());
        copy_in_every_way(mover, device, host.address());
    }
    EXPECT_EQ(count_mappings(), 1u);
    EXPECT_TRUE(framework_copies(host.data(), device));
}

TEST_F(FrameworkHostMemory, memory_across_mappings_of_the_framework_is_copied) {
    acquire();
    HostCache::get().enable();
    const HostBuffer host(3 * kSize);
    // SynapseAI refuses to map a range that overlaps these.
    const auto map = find_function<vendor::synHostMap>("synHostMap");
    ASSERT_EQ(map(0, kMiB, host.data()), vendor::synSuccess);
    ASSERT_EQ(map(0, kMiB, host.data() + 2 * kMiB), vendor::synSuccess);
    ASSERT_EQ(map(0, kSize, host.data()), vendor::synInvalidArgument);
    const std::uint64_t device = allocate(kSize);
    {
        Mover mover(cards());
        copy_in_every_way(mover, device, host.address());
    }
    EXPECT_EQ(count_mappings(), 2u);
}

TEST_F(FrameworkHostMemory, only_own_memory_is_mapped) {
    acquire();
    HostCache::get().enable();
    const HostBuffer host(kSize);
    const std::uint64_t device = allocate(kSize);
    {
        Mover mover(cards());
        copy_in_every_way(mover, device, host.address());
        EXPECT_LE(count_mappings(), 2u) << "the two rings in which copies are staged";
    }
    EXPECT_EQ(count_mappings(), 0u) << "the rings are unmapped with their mover";
}

TEST_F(FrameworkHostMemory, large_copy_is_staged_in_several_batches_at_once) {
    acquire();
    const HostBuffer host(16 * kMiB);
    const std::uint64_t device = allocate(16 * kMiB);
    const Bytes sent = pattern(16 * kMiB, 22);
    host.write(0, sent);
    Mover mover(cards());
    Tally tally;
    ASSERT_EQ(mover.post({device, host.address(), sent.size(), nullptr, Tally::count, &tally}), Mover::Posted::started);
    // Nothing is collected before the first progress: these are all under way.
    EXPECT_GE(started_engine(card())->submissions(), 8u);
    ASSERT_TRUE(finish(mover));
    ASSERT_TRUE(is_ok(run_copy(mover, host.address(), device, sent.size())));
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_TRUE(host.read(0, sent.size()) == sent);
}

} // namespace
