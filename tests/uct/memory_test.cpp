// SPDX-License-Identifier: BSD-3-Clause
// Allocation of Gaudi memory, and detection of its type.
#include "uct_side.h"

#include <stdlib.h>
#include <ucs/memory/memtype_cache.h>

#include <algorithm>
#include <list>
#include <set>

using namespace uct_side;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

class MemoryTest : public ::testing::Test {
protected:
    static void set(const char *name, const std::string &value) { setenv(name, value.c_str(), 1); }
    static bool is_gaudi(const Domain &domain, const void *address) {
        ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;
        const bool detected = uct_md_detect_memory_type(domain.md(), address, 1, &type) == UCS_OK;
        EXPECT_EQ(detected, domain.query(address).has_value()) << "detection and query differ";
        EXPECT_TRUE(!detected || type == UCS_MEMORY_TYPE_GAUDI);
        return detected;
    }

    e2e::Printed m_printed;
};

using Detection = MemoryTest;
using Allocation = MemoryTest;
using FixedAllocation = MemoryTest;
using MemoryTypeCache = MemoryTest;

TEST_F(Detection, every_byte_has_base_and_length_of_its_allocation) {
    const Domain domain;
    std::vector<Buffer> buffers;
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{100'000}, 3 * kMiB, 2 * kPage})
        buffers.emplace_back(domain, size);
    for (const Buffer &buffer : buffers)
        for (const std::size_t offset : {std::size_t{0}, buffer.size() / 2, buffer.size() - 1}) {
            const auto seen = domain.query(buffer.data() + offset);
            ASSERT_TRUE(seen);
            EXPECT_EQ(seen->mem_type, UCS_MEMORY_TYPE_GAUDI);
            EXPECT_EQ(seen->base_address, buffer.data());
            EXPECT_GE(seen->alloc_length, buffer.size());
            EXPECT_LT(seen->alloc_length, buffer.size() + 4096);
            EXPECT_EQ(seen->mem_flags, UCS_MEM_FLAG_REGISTRABLE);
        }
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Detection, host_memory_is_not_gaudi) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    int local = 0;
    static int fixed = 0;
    const Bytes heap(100'000);
    for (const void *address : {static_cast<const void *>(&local), static_cast<const void *>(&fixed),
                                static_cast<const void *>(heap.data()), static_cast<const void *>("text"),
                                static_cast<const void *>(nullptr), reinterpret_cast<const void *>(~std::uint64_t{0})})
        EXPECT_FALSE(is_gaudi(domain, address));
}

TEST_F(Detection, addresses_between_blocks_are_not_gaudi) {
    set("SOFTGAUDI_CARDS", "4");
    std::list<Domain> domains;
    std::vector<Buffer> buffers;
    for (unsigned card = 0; card < 4; ++card)
        buffers.emplace_back(domains.emplace_back(settings_for_card(card)), kMiB);
    const Domain &domain = domains.front();
    std::vector<std::uint64_t> bases;
    for (const Buffer &buffer : buffers)
        bases.push_back(buffer.address());
    std::sort(bases.begin(), bases.end());
    std::uint64_t state = 1;
    unsigned probed = 0;
    for (std::size_t i = 0; i + 1 < bases.size(); ++i) {
        const std::uint64_t begin = bases[i] + kPage, end = bases[i + 1];
        ASSERT_LT(begin, end);
        for (unsigned j = 0; j < 3400; ++j, ++probed) {
            state = state * 6364136223846793005 + 1442695040888963407;
            const std::uint64_t address = begin + (state >> 1) % (end - begin);
            ASSERT_FALSE(is_gaudi(domain, reinterpret_cast<const void *>(address))) << std::hex << address;
        }
    }
    EXPECT_GE(probed, 10'000u);
}

TEST_F(Detection, card_without_sysfs_entry_has_no_system_device) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const auto seen = domain.query(buffer.data());
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->sys_dev, UCS_SYS_DEVICE_ID_UNKNOWN)
        << "UCX deadlocks when it logs about a device it has no path for";
    for (unsigned device = 0; device < 16; ++device) {
        uct_allocated_memory_t memory{};
        EXPECT_EQ(Buffer::allocate(domain, kMiB, {.device = static_cast<ucs_sys_device_t>(device)}, memory),
                  UCS_ERR_NO_DEVICE);
    }
    EXPECT_THAT(m_printed.complaints(), testing::Contains(testing::AllOf(HasSubstr("/sys/bus/pci/devices"),
                                                                         HasSubstr("UCX_GAUDI_COPY_DEVICE"))));
}

TEST_F(Allocation, device_setting_chooses_the_card) {
    std::list<Domain> domains;
    std::set<std::uint64_t> ranges; // each card has an address range of its own
    for (unsigned card = 0; card < 8; ++card) {
        const Buffer buffer(domains.emplace_back(settings_for_card(card)), kMiB);
        ranges.insert(buffer.address());
    }
    EXPECT_EQ(ranges.size(), 8u);
    EXPECT_EQ(count_calls("open"), 8u);
}

TEST_F(Detection, freed_block_is_not_gaudi) {
    const Domain domain;
    const Buffer kept(domain, kMiB);
    void *address = nullptr;
    {
        const Buffer large(domain, 3 * kPage);
        address = large.data();
        EXPECT_TRUE(is_gaudi(domain, address));
    }
    EXPECT_FALSE(is_gaudi(domain, address)) << "a block of one allocation is unmapped at once";
}

struct CacheEntry {
    ucs_status_t status;
    ucs_memory_info_t info;
};

CacheEntry look_up_in_memtype_cache(const void *address) {
    ucs_memory_info_t info{};
    const ucs_status_t status = ucs_memtype_cache_lookup(address, 1, &info);
    return {status, info};
}

TEST_F(MemoryTypeCache, holds_a_block_from_map_to_unmap) {
    const Domain domain;
    const Buffer kept(domain, kMiB);
    const void *address = nullptr;
    {
        const Buffer large(domain, 3 * kPage);
        address = large.data() + 5;
        const CacheEntry seen = look_up_in_memtype_cache(address);
        ASSERT_EQ(seen.status, UCS_OK);
        EXPECT_EQ(seen.info.type, UCS_MEMORY_TYPE_GAUDI);
        EXPECT_EQ(seen.info.sys_dev, domain.query(address)->sys_dev);
        EXPECT_EQ(seen.info.mem_flags, UCS_MEM_FLAG_REGISTRABLE);
    }
    EXPECT_EQ(look_up_in_memtype_cache(address).info.type, UCS_MEMORY_TYPE_UNKNOWN)
        << "UCX must query again: a program may map memory there";
    EXPECT_NE(look_up_in_memtype_cache(&address).status, UCS_OK) << "host memory";
}

TEST_F(MemoryTypeCache, block_without_export_is_not_registrable) {
    const Domain domain(Settings{{"DMABUF", "n"}});
    const Buffer buffer(domain, kMiB);
    const CacheEntry seen = look_up_in_memtype_cache(buffer.data());
    ASSERT_EQ(seen.status, UCS_OK);
    EXPECT_EQ(seen.info.type, UCS_MEMORY_TYPE_GAUDI);
    EXPECT_EQ(seen.info.mem_flags, 0);
}

TEST_F(Allocation, hundred_thousand_fit_on_one_card) {
    set("SOFTGAUDI_CARDS", "1");
    const Domain domain;
    std::vector<Buffer> buffers;
    constexpr unsigned kCount = 100'000;
    buffers.reserve(kCount);
    for (unsigned i = 0; i < kCount; ++i)
        buffers.emplace_back(domain, 1 + i % 5000);
    std::set<std::uint64_t> bases;
    for (const Buffer &buffer : buffers)
        bases.insert(buffer.address());
    EXPECT_EQ(bases.size(), kCount);
    EXPECT_LE(count_calls("device_memory_alloc"), 2u) << "allocations share blocks";
    // New allocations of the same sizes fit into the holes that freed ones leave.
    for (unsigned i = 1; i < kCount; i += 2)
        Buffer(std::move(buffers[i]));
    const std::uint64_t before = count_calls("device_memory_alloc");
    std::vector<Buffer> again;
    for (unsigned i = 1; i < kCount; i += 2)
        again.emplace_back(domain, 1 + i % 5000);
    EXPECT_EQ(count_calls("device_memory_alloc"), before);
}

TEST_F(Allocation, above_max_memory_is_refused_with_the_setting) {
    set("SOFTGAUDI_CARDS", "1");
    const Domain domain(Settings{{"MAX_MEMORY", "1600m"}});
    const Buffer first(domain, 700 * kMiB), second(domain, 700 * kMiB);
    uct_allocated_memory_t memory{};
    EXPECT_EQ(Buffer::allocate(domain, 700 * kMiB, {}, memory), UCS_ERR_NO_MEMORY);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("UCX_GAUDI_COPY_MAX_MEMORY")));
}

TEST_F(Allocation, all_cards_in_reset_fail_it_once_after_the_open_timeout) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    const Domain domain(Settings{{"OPEN_TIMEOUT", "2s"}});
    uct_allocated_memory_t memory{};
    testing::internal::CaptureStderr();
    EXPECT_NE(Buffer::allocate(domain, kMiB, {}, memory), UCS_OK);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::StartsWith("ucx-gaudi: waiting for one of 8 cards, which the driver is resetting (up to 2 s"));
    EXPECT_THAT(m_printed.complaints(),
                testing::ElementsAre(HasSubstr("is being reset"), HasSubstr("failed to allocate")))
        << "one message of the domain, one of UCX";
}

TEST_F(FixedAllocation, lies_at_the_requested_address) {
    const Domain domain;
    const Buffer first(domain, kMiB);
    unsigned char *requested = first.data() + 64 * kMiB;
    const Buffer fixed(domain, 10'000, {.flags = UCT_MD_MEM_FLAG_FIXED, .address = requested});
    EXPECT_EQ(fixed.data(), requested);
    EXPECT_EQ(domain.query(requested + 9'999)->base_address, requested);

    uct_allocated_memory_t memory{};
    for (void *taken :
         {static_cast<void *>(requested), static_cast<void *>(requested + 4096), static_cast<void *>(first.data())})
        EXPECT_NE(Buffer::allocate(domain, 100, {.flags = UCT_MD_MEM_FLAG_FIXED, .address = taken}, memory), UCS_OK);
    EXPECT_NE(Buffer::allocate(domain, 100, {.flags = UCT_MD_MEM_FLAG_FIXED, .address = &memory}, memory), UCS_OK)
        << "no card has memory at a host address";
}

TEST_F(FixedAllocation, address_outside_all_blocks_maps_a_new_block) {
    const Domain domain;
    const Buffer first(domain, kMiB);
    const auto block = reinterpret_cast<std::uint64_t>(domain.query(first.data())->base_address);
    auto *requested = reinterpret_cast<unsigned char *>(block + 20 * kPage);
    const Buffer fixed(domain, kMiB, {.flags = UCT_MD_MEM_FLAG_FIXED, .address = requested});
    EXPECT_EQ(fixed.data(), requested);
}

/// uct_mem_alloc refuses FIXED without an address, so this calls the domain.
ucs_status_t allocate_fixed_anywhere(const Domain &domain, void *&address, uct_mem_h &memh) {
    std::size_t length = kMiB;
    address = nullptr;
    return uct_md_mem_alloc(domain.md(), &length, &address, UCS_MEMORY_TYPE_GAUDI, UCS_SYS_DEVICE_ID_UNKNOWN,
                            UCT_MD_MEM_FLAG_FIXED, "test", &memh);
}

TEST_F(FixedAllocation, without_address_is_exported_at_once) {
    const Domain domain;
    const std::uint64_t before = read_counter("exports");
    void *address = nullptr;
    uct_mem_h memh = nullptr;
    ASSERT_EQ(allocate_fixed_anywhere(domain, address, memh), UCS_OK);
    EXPECT_TRUE(is_gaudi(domain, address));
    EXPECT_EQ(read_counter("exports"), before + 1);
    EXPECT_EQ(uct_md_mem_free(domain.md(), memh), UCS_OK);
}

TEST_F(FixedAllocation, without_address_and_export_is_refused) {
    const Domain domain(Settings{{"DMABUF", "n"}});
    void *address = nullptr;
    uct_mem_h memh = nullptr;
    EXPECT_EQ(allocate_fixed_anywhere(domain, address, memh), UCS_ERR_UNSUPPORTED);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("needs dma-buf export")));
}

TEST_F(Allocation, impossible_size_or_device_is_refused) {
    const Domain domain;
    uct_allocated_memory_t memory{};
    EXPECT_NE(Buffer::allocate(domain, 1ull << 50, {}, memory), UCS_OK);
    EXPECT_NE(Buffer::allocate(domain, SIZE_MAX, {}, memory), UCS_OK);
    EXPECT_NE(Buffer::allocate(domain, kMiB, {.device = 200}, memory), UCS_OK);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("system device 200 is no Gaudi card")));
    const Buffer good(domain, kMiB);
}

TEST_F(Allocation, waits_for_a_card_in_reset) {
    set("SOFTGAUDI_FAULTS", "open@0#1=EAGAIN;open@0#2=EAGAIN");
    const Domain domain(Settings{{"DEVICE", "module:0"}});
    const Buffer buffer(domain, kMiB);
    EXPECT_EQ(count_calls("open"), 3u);
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

} // namespace
