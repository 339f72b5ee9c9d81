// SPDX-License-Identifier: BSD-3-Clause
// Allocation and mapping: what is returned, at which addresses, and every refusal with its errno.
#include "restricted.h"
#include "soft.h"

#include <sys/vfs.h>

#include <linux/magic.h>

#include <algorithm>
#include <memory>
#include <set>

using namespace soft;

namespace {

constexpr uint64_t kPages = 127;
constexpr uint64_t kDram = 0x1001001800000000;     // first address of device memory
constexpr uint64_t kFirmware = 0x1001500000000000; // device addresses that are mapped only by hint
constexpr uint64_t kFirmwareEnd = 0x1001700000000000;
constexpr uint64_t kHost = 0xFFF0000100000000;     // host memory in small pages
constexpr uint64_t kHostHuge = 0xFFF0800000000000; // and in huge pages
constexpr uint64_t kHostFirmware = 0xFFF077FFFFFF0000;

class Memory : public SoftTest {
protected:
    static uint64_t alloc(const Card &card, uint64_t size, bool contiguous = false) {
        return hlthunk_device_memory_alloc(card.fd, size, 0, contiguous, false);
    }
};

/// The errno of a function that returns 0 on every failure.
template <class Call>
int error_of(Call call) {
    errno = 0;
    return call() == 0 ? errno : 0;
}

hlthunk_dram_usage_info usage(int fd) {
    hlthunk_dram_usage_info info{};
    EXPECT_EQ(hlthunk_get_dram_usage(fd, &info), 0);
    return info;
}

/// Memory from mmap(2) with the given alignment.
class Region {
public:
    explicit Region(uint64_t size, uint64_t alignment = 4096, int flags = MAP_PRIVATE | MAP_ANONYMOUS,
                    int protection = PROT_READ | PROT_WRITE)
        : m_whole(size + alignment),
          m_base(static_cast<char *>(mmap(nullptr, m_whole, protection, flags | MAP_NORESERVE, -1, 0))) {
        EXPECT_NE(static_cast<void *>(m_base), MAP_FAILED) << strerror(errno);
        const auto start = reinterpret_cast<uintptr_t>(m_base);
        data = m_base + ((start + alignment - 1) / alignment * alignment - start);
    }
    ~Region() { munmap(m_base, m_whole); }
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

private:
    const uint64_t m_whole;
    char *const m_base;

public:
    char *data;
};

// ---- allocation -------------------------------------------------------------------------------------------------

TEST_F(Memory, allocation_of_zero_bytes_is_refused) {
    const Card card;
    EXPECT_EQ(error_of([&] { return alloc(card, 0); }), EINVAL);
    EXPECT_EQ(error_of([&] { return alloc(card, 0, true); }), EINVAL);
}

TEST_F(Memory, allocation_beyond_capacity_is_refused) {
    const Card card;
    for (const uint64_t size : {kPages * kPage + 1, 128 * kPage, UINT64_MAX, UINT64_MAX - kPage})
        for (const bool contiguous : {false, true})
            EXPECT_EQ(error_of([&] { return alloc(card, size, contiguous); }), ENOMEM) << size;
    EXPECT_EQ(usage(card.fd).ctx_dram_mem, 0u);
}

TEST_F(Memory, size_is_rounded_up_to_pages) {
    const Card card;
    EXPECT_NE(alloc(card, 1), 0u);
    EXPECT_EQ(usage(card.fd).ctx_dram_mem, kPage);
    EXPECT_NE(alloc(card, kPage), 0u);
    EXPECT_EQ(usage(card.fd).ctx_dram_mem, 2 * kPage);
    EXPECT_NE(alloc(card, kPage + 1, true), 0u);
    EXPECT_EQ(usage(card.fd).ctx_dram_mem, 4 * kPage);
}

TEST_F(Memory, page_size_of_the_user_is_ignored) {
    const Card card;
    for (const uint64_t page : {uint64_t{4096}, uint64_t{4097}, 2 * kMiB, kGiB})
        EXPECT_NE(hlthunk_device_memory_alloc(card.fd, 1, page, false, false), 0u);
    EXPECT_EQ(usage(card.fd).ctx_dram_mem, 4 * kPage);
}

TEST_F(Memory, every_page_can_be_allocated_and_again_after_free) {
    const Card card;
    for (const bool contiguous : {false, true}) {
        std::set<uint64_t> handles;
        for (uint64_t i = 0; i < kPages; ++i) {
            const uint64_t handle = alloc(card, kPage, contiguous);
            ASSERT_NE(handle, 0u) << i;
            EXPECT_TRUE(handles.insert(handle).second);
        }
        EXPECT_EQ(usage(card.fd).dram_free_mem, 0u);
        EXPECT_EQ(error_of([&] { return alloc(card, 1, contiguous); }), ENOMEM);
        for (const uint64_t handle : handles)
            EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
        EXPECT_EQ(usage(card.fd).dram_free_mem, kPages * kPage);
    }
}

TEST_F(Memory, whole_memory_can_be_allocated_at_once) {
    const Card card;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(card.fd, &info), 0);
    for (const bool contiguous : {false, true}) {
        const uint64_t handle = alloc(card, info.dram_size, contiguous);
        ASSERT_NE(handle, 0u);
        const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
        EXPECT_EQ(address, kDram);
        EXPECT_EQ(error_of([&] { return alloc(card, 1); }), ENOMEM);
        EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
        EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    }
}

TEST_F(Memory, whole_memory_of_every_card_can_be_allocated) {
    std::vector<std::unique_ptr<Card>> cards;
    for (int i = 0; i < 8; ++i) {
        cards.push_back(std::make_unique<Card>());
        EXPECT_NE(cards.back()->memory(kPages * kPage), 0u);
    }
}

TEST_F(Memory, contiguous_allocation_in_fragmented_memory_is_refused) {
    const Card card;
    std::vector<uint64_t> handles;
    for (uint64_t i = 0; i < kPages; ++i)
        handles.push_back(alloc(card, kPage));
    for (size_t i = 0; i < handles.size(); i += 2)
        EXPECT_EQ(hlthunk_device_memory_free(card.fd, handles[i]), 0);
    EXPECT_EQ(error_of([&] { return alloc(card, 2 * kPage, true); }), ENOMEM);
    EXPECT_NE(alloc(card, kPage, true), 0u);
    EXPECT_NE(alloc(card, 60 * kPage), 0u);
}

TEST_F(Memory, double_free_and_unknown_handle_are_refused) {
    const Card card;
    const uint64_t handle = alloc(card, 1);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle + 1), -EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, 0), -EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), -EINVAL);
}

TEST_F(Memory, free_of_mapped_memory_is_refused) {
    const Card card;
    const uint64_t handle = alloc(card, 1);
    const uint64_t first = hlthunk_device_memory_map(card.fd, handle, 0);
    const uint64_t second = hlthunk_device_memory_map(card.fd, handle, 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), -EINVAL);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, first), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), -EINVAL);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, second), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
}

TEST_F(Memory, new_block_reads_zero) {
    Card card;
    auto out = pattern(4096);
    std::vector<unsigned char> back(out.size(), 1);
    const uint64_t handle = alloc(card, kPages * kPage);
    const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
    card.run(kDown, Packets().copy(card.map(out), address, 4096));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    const uint64_t again = card.memory(kPages * kPage);
    card.run(kUp, Packets().copy(again, card.map(back), 4096));
    EXPECT_EQ(back, std::vector<unsigned char>(4096, 0));
}

TEST_F(Memory, usage_follows_card_and_context) {
    const Card card;
    const int control = hlthunk_open_control(0, nullptr);
    const uint64_t handle = alloc(card, 3 * kPage);
    EXPECT_EQ(usage(card.fd).ctx_dram_mem, 3 * kPage);
    EXPECT_EQ(usage(card.fd).dram_free_mem, 124 * kPage);
    EXPECT_EQ(usage(control).ctx_dram_mem, 0u); // a control node has no context
    EXPECT_EQ(usage(control).dram_free_mem, 124 * kPage);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    EXPECT_EQ(usage(control).dram_free_mem, 127 * kPage);
    EXPECT_EQ(hlthunk_close(control), 0);
}

// ---- mapping device memory --------------------------------------------------------------------------------------

TEST_F(Memory, mappings_are_in_range_and_do_not_overlap) {
    Card card;
    std::vector<uint64_t> addresses;
    for (int i = 0; i < 20; ++i)
        addresses.push_back(card.memory(2 * kPage));
    std::sort(addresses.begin(), addresses.end());
    EXPECT_EQ(addresses.front(), kDram);
    for (size_t i = 0; i < addresses.size(); ++i) {
        EXPECT_EQ((addresses[i] - kDram) % kPage, 0u);
        if (i > 0) {
            EXPECT_GE(addresses[i] - addresses[i - 1], 2 * kPage);
        }
    }
}

TEST_F(Memory, map_of_unknown_handle_is_refused) {
    const Card card;
    for (const uint64_t handle : {uint64_t{0}, uint64_t{1}, uint64_t{UINT32_MAX}})
        EXPECT_EQ(error_of([&] { return hlthunk_device_memory_map(card.fd, handle, 0); }), EINVAL);
    const uint64_t handle = alloc(card, 1);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    EXPECT_EQ(error_of([&] { return hlthunk_device_memory_map(card.fd, handle, 0); }), EINVAL);
}

TEST_F(Memory, mappings_of_one_block_share_bytes) {
    Card card;
    const uint64_t handle = alloc(card, 1);
    const uint64_t first = hlthunk_device_memory_map(card.fd, handle, 0);
    const uint64_t second = hlthunk_device_memory_map(card.fd, handle, 0);
    ASSERT_NE(first, 0u);
    ASSERT_NE(second, 0u);
    ASSERT_NE(first, second);
    auto out = pattern(1000);
    std::vector<unsigned char> back(out.size());
    card.run(kDown, Packets().copy(card.map(out), first + 7, 1000));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, first), 0);
    card.run(kUp, Packets().copy(second + 7, card.map(back), 1000));
    EXPECT_EQ(out, back);
    EXPECT_EQ(usage(card.fd).ctx_dram_mem, kPage);
}

TEST_F(Memory, aligned_free_hint_is_used) {
    const Card card;
    for (const uint64_t hint : {kDram + 5 * kPage, kDram, kDram + 1000 * kPage})
        EXPECT_EQ(hlthunk_device_memory_map(card.fd, alloc(card, kPage), hint), hint);
}

TEST_F(Memory, unaligned_hint_is_ignored) {
    const Card card;
    for (const uint64_t hint : {kDram + 5 * kPage + kPage - 1, kDram + 4096, kDram + kPage / 2}) {
        const uint64_t address = hlthunk_device_memory_map(card.fd, alloc(card, kPage), hint);
        EXPECT_NE(address, 0u);
        EXPECT_NE(address, hint);
        EXPECT_EQ((address - kDram) % kPage, 0u);
    }
}

TEST_F(Memory, occupied_hint_is_ignored) {
    const Card card;
    const uint64_t hint = kDram + 10 * kPage;
    ASSERT_EQ(hlthunk_device_memory_map(card.fd, alloc(card, 2 * kPage), hint), hint);
    // The same address, its second half, and one that overlaps its start.
    for (const uint64_t taken : {hint, hint + kPage, hint - kPage}) {
        const uint64_t address = hlthunk_device_memory_map(card.fd, alloc(card, 2 * kPage), taken);
        EXPECT_NE(address, 0u);
        EXPECT_NE(address, taken);
    }
}

TEST_F(Memory, hint_out_of_range_is_ignored) {
    const Card card;
    for (const uint64_t hint : {kDram - kPage, uint64_t{0x1002000000000000}, kHost, uint64_t{UINT64_MAX}})
        EXPECT_GE(hlthunk_device_memory_map(card.fd, alloc(card, kPage), hint), kDram);
}

TEST_F(Memory, hint_at_unmapped_address_is_used) {
    const Card card;
    const uint64_t handle = alloc(card, kPage);
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(hlthunk_device_memory_map(card.fd, handle, kDram + 3 * kPage), kDram + 3 * kPage);
        ASSERT_EQ(hlthunk_memory_unmap(card.fd, kDram + 3 * kPage), 0);
    }
}

TEST_F(Memory, firmware_range_is_mapped_by_hint) {
    const Card card;
    const uint64_t hint = kDram + ((kFirmware - kDram) / kPage + 1) * kPage;
    EXPECT_EQ(hlthunk_device_memory_map(card.fd, alloc(card, 2 * kPage), hint), hint);
}

TEST_F(Memory, firmware_range_is_not_used_without_hint) {
    const Card card;
    // Fills everything below the firmware range, so that the next free address would be in it.
    const uint64_t handle = alloc(card, kPages * kPage);
    const uint64_t size = kPages * kPage;
    uint64_t place = kFirmware - (kFirmware - kDram) % size; // whole blocks from the start
    std::vector<uint64_t> mapped;
    while (place > kDram) {
        place -= size;
        mapped.push_back(hlthunk_device_memory_map(card.fd, handle, place));
        ASSERT_EQ(mapped.back(), place);
        if (mapped.size() > 2000)
            break;
    }
    ASSERT_LE(mapped.size(), 2000u);
    for (int i = 0; i < 3; ++i) {
        const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
        EXPECT_NE(address, 0u);
        EXPECT_TRUE(address + size <= kFirmware || address >= kFirmwareEnd) << std::hex << address;
    }
}

// ---- unmapping --------------------------------------------------------------------------------------------------

TEST_F(Memory, unmap_inside_a_mapping_is_refused) {
    Card card;
    const uint64_t address = card.memory(2 * kPage);
    for (const uint64_t wrong :
         {uint64_t{0}, address + 1, address + 4096, address + kPage, address + 2 * kPage, address - 4096, UINT64_MAX})
        EXPECT_EQ(hlthunk_memory_unmap(card.fd, wrong), -EINVAL) << std::hex << wrong;
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
}

TEST_F(Memory, unmap_of_host_memory_takes_the_unaligned_address) {
    Card card;
    const Region region(3 * 4096);
    const uint64_t address = card.map(region.data + 100, 8192);
    EXPECT_EQ(address % 4096, 100u);
    for (const uint64_t wrong : {address - 100, address + 1, address + 4096})
        EXPECT_EQ(hlthunk_memory_unmap(card.fd, wrong), -EINVAL);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
}

TEST_F(Memory, copy_after_unmap_fails) {
    Card card;
    std::vector<char> host(4096);
    const uint64_t from = card.map(host);
    const uint64_t address = card.memory();
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    EXPECT_EQ(card.wait(card.submit(kDown, Packets().copy(from, address, 4096))), -EIO);
}

// ---- mapping host memory ----------------------------------------------------------------------------------------

TEST_F(Memory, unaligned_host_memory_is_mapped) {
    Card card;
    const Region region(64 * 1024);
    for (const auto &[offset, size] : {std::pair<uint64_t, uint64_t>{0, 1},
                                       {1, 1},
                                       {4095, 1},
                                       {4095, 2},
                                       {17, 9000},
                                       {4096, 4096},
                                       {0, 64 * 1024},
                                       {64 * 1024 - 1, 1}}) {
        const uint64_t address = card.map(region.data + offset, size);
        EXPECT_GE(address, kHost);
        EXPECT_LT(address, kHostHuge);
        EXPECT_EQ(address % 4096, offset % 4096);
    }
}

TEST_F(Memory, same_host_memory_can_be_mapped_twice) {
    Card card;
    const Region region(8192);
    std::set<uint64_t> addresses;
    for (int i = 0; i < 100; ++i)
        EXPECT_TRUE(addresses.insert(card.map(region.data + 5, 4096)).second);
    std::memset(region.data, 'a', 8192);
    card.run(kDown, Packets().fill(0, *addresses.begin(), 4096));
    for (int i = 0; i < 8192; ++i)
        ASSERT_EQ(region.data[i], i >= 5 && i < 5 + 4096 ? 0 : 'a') << i;
}

TEST_F(Memory, empty_and_wrapping_host_ranges_are_refused) {
    const Card card;
    const Region region(4096);
    const auto map = [&](void *pointer, uint64_t size) {
        return error_of([&] { return hlthunk_host_memory_map(card.fd, pointer, 0, size); });
    };
    EXPECT_EQ(map(region.data, 0), EINVAL);
    EXPECT_EQ(map(region.data, UINT64_MAX), EINVAL);
    EXPECT_EQ(map(region.data, uint64_t{0} - reinterpret_cast<uint64_t>(region.data)), EINVAL);
    EXPECT_EQ(map(reinterpret_cast<void *>(UINT64_MAX), 2), EINVAL);
}

TEST_F(Memory, unpinnable_host_memory_is_refused) {
    const Card card;
    const auto map = [&](void *pointer, uint64_t size) {
        return error_of([&] { return hlthunk_host_memory_map(card.fd, pointer, 0, size); });
    };
    const Region read_only(8192, 4096, MAP_PRIVATE | MAP_ANONYMOUS, PROT_READ);
    const Region closed(8192, 4096, MAP_PRIVATE | MAP_ANONYMOUS, PROT_NONE);
    EXPECT_EQ(map(nullptr, 4096), EFAULT);
    EXPECT_EQ(map(read_only.data, 4096), EFAULT);
    EXPECT_EQ(map(closed.data, 4096), EFAULT);

    // One read-only page in the middle, and a hole.
    const Region region(5 * 4096);
    ASSERT_EQ(mprotect(region.data + 2 * 4096, 4096, PROT_READ), 0);
    EXPECT_EQ(map(region.data, 5 * 4096), EFAULT);
    EXPECT_EQ(map(region.data, 2 * 4096), 0);
    EXPECT_EQ(map(region.data + 2 * 4096 - 1, 2), EFAULT);
    ASSERT_EQ(munmap(region.data + 2 * 4096, 4096), 0);
    EXPECT_EQ(map(region.data, 5 * 4096), EFAULT);
    EXPECT_EQ(map(region.data + 3 * 4096, 2 * 4096), 0);
}

bool in_memory(const char *dir) {
    struct statfs info {};
    return statfs(dir, &info) != 0 || info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

TEST_F(Memory, shared_file_is_mapped_on_tmpfs_and_refused_on_disk) {
    const Card card;
    const auto map_file = [&](int file, int flags) {
        EXPECT_GE(file, 0) << strerror(errno);
        EXPECT_EQ(ftruncate(file, 4096), 0);
        void *memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, flags, file, 0);
        EXPECT_NE(memory, MAP_FAILED) << strerror(errno);
        const int error = error_of([&] { return hlthunk_host_memory_map(card.fd, memory, 0, 4096); });
        munmap(memory, 4096);
        close(file);
        return error;
    };
    EXPECT_EQ(map_file(memfd_create("test", MFD_CLOEXEC), MAP_SHARED), 0);
    EXPECT_EQ(map_file(open(dir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), MAP_SHARED), 0);

    std::error_code ignored;
    std::vector<std::string> disks = {std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string(),
                                      "/var/tmp", "/tmp"};
    const auto disk =
        std::find_if(disks.begin(), disks.end(), [](const std::string &d) { return !in_memory(d.c_str()); });
    ASSERT_NE(disk, disks.end()) << "needs a directory that is not in memory";
    for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
        std::string name = *disk + "/softgaudi-test-XXXXXX";
        const int file = mkostemp(name.data(), O_CLOEXEC);
        unlink(name.c_str());
        EXPECT_EQ(map_file(file, flags), flags == MAP_SHARED ? EFAULT : 0); // private pages are anonymous memory
    }
}

TEST_F(Memory, shared_anonymous_memory_is_mapped) {
    Card card;
    const Region region(8192, 4096, MAP_SHARED | MAP_ANONYMOUS);
    card.run(kDown, Packets().fill(0x4141414141414141, card.map(region.data, 8192), 8192));
    EXPECT_EQ(std::string(region.data, 8192), std::string(8192, 'A'));
}

TEST_F(Memory, huge_pages_are_mapped_in_the_huge_range) {
    Card card;
    const Region region(8 * kMiB, 2 * kMiB);
    const uint64_t address = card.map(region.data, 6 * kMiB);
    EXPECT_GE(address, kHostHuge);
    EXPECT_EQ(address % (2 * kMiB), 0u);
    card.run(kDown, Packets().fill(9, address + 4 * kMiB, 8));
    EXPECT_EQ(region.data[4 * kMiB], 9);
}

TEST_F(Memory, huge_page_alignment_is_kept) {
    Card card;
    const Region region(8 * kMiB, 2 * kMiB);
    for (const uint64_t size : {uint64_t{100}, uint64_t{4096}, 2 * kMiB + 4096}) {
        const uint64_t address = card.map(region.data, size);
        EXPECT_LT(address, kHostHuge);
        EXPECT_EQ(address % (2 * kMiB), 0u) << size;
    }
    // Only memory that starts at a huge page.
    const uint64_t address = card.map(region.data + 4096, 4096);
    EXPECT_NE(address % (2 * kMiB), 0u);
}

TEST_F(Memory, aligned_free_host_hint_is_used) {
    Card card;
    const Region region(64 * 1024);
    char *const odd = region.data + 123;
    const uint64_t hint = kHost + 777 * 4096;
    const auto map = [&](uint64_t at) { return hlthunk_host_memory_map(card.fd, odd, at, 16 * 1024); };
    EXPECT_EQ(map(hint), hint + 123);
    EXPECT_NE(map(hint), 0u); // occupied: another address
    const uint64_t unaligned = map(hint + 100 * 4096 + 4095);
    EXPECT_NE(unaligned, 0u);
    EXPECT_NE(unaligned & ~uint64_t{4095}, hint + 100 * 4096);
    EXPECT_NE(unaligned & ~uint64_t{4095}, hint + 101 * 4096);
}

TEST_F(Memory, forced_hint_is_used_or_refused) {
    Card card;
    const Region region(64 * 1024 + 4096, 64 * 1024);
    char *const page = region.data + 4096;
    const auto map = [&](char *pointer, uint64_t at) {
        return hlthunk_host_memory_map_flags(card.fd, pointer, at, 4096, HL_MEM_FORCE_HINT);
    };
    const uint64_t hint = kHost + 777 * 4096;
    EXPECT_EQ(map(page, hint), hint);
    EXPECT_EQ(error_of([&] { return map(page, hint); }), ENOMEM);                 // occupied
    EXPECT_EQ(error_of([&] { return map(page, hint + 10 * 4096 + 1); }), ENOMEM); // not aligned
    EXPECT_EQ(error_of([&] { return map(page, kDram); }), ENOMEM);                // not a host address
    EXPECT_EQ(error_of([&] { return map(page, 0); }), ENOMEM);                    // no hint
    EXPECT_EQ(error_of([&] { return map(page + 1, hint + 10 * 4096); }), EINVAL); // cannot be used for unaligned memory
    EXPECT_EQ(map(page, hint + 10 * 4096), hint + 10 * 4096);
}

TEST_F(Memory, forced_hints_reuse_unmapped_addresses_in_any_order) {
    Card card;
    const Region region(3 * 4096, 4096, MAP_SHARED | MAP_ANONYMOUS);
    const uint64_t address = card.map(region.data, 3 * 4096);
    ASSERT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    for (const uint64_t at : {uint64_t{0}, uint64_t{0x2000}, uint64_t{0x1000}})
        EXPECT_EQ(hlthunk_host_memory_map_flags(card.fd, region.data + at, address + at, 4096, HL_MEM_FORCE_HINT),
                  address + at);
}

TEST_F(Memory, firmware_range_of_host_addresses_is_mapped_by_hint) {
    Card card;
    const Region region(8192);
    EXPECT_EQ(hlthunk_host_memory_map(card.fd, region.data + 4096, kHostFirmware, 4096), kHostFirmware);
}

TEST_F(Memory, tens_of_thousands_of_mappings_succeed) {
#ifdef __SANITIZE_ADDRESS__ // a minute
    constexpr int kMappings = 10000;
#else
    constexpr int kMappings = 33000;
#endif
    Card card;
    const Region region(4096);
    std::vector<uint64_t> addresses;
    for (int i = 0; i < kMappings; ++i) {
        addresses.push_back(hlthunk_host_memory_map(card.fd, region.data, 0, 64));
        ASSERT_NE(addresses.back(), 0u) << i;
    }
    for (const uint64_t address : addresses)
        ASSERT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
}

TEST_F(Memory, unpinned_host_memory_that_is_unmapped_fails_the_card_not_the_program) {
    leave_unpinned();
    for (const uint64_t size : {uint64_t{4096}, 4 * kMiB}) {
        for (const bool reads : {true, false}) {
            Card card;
            const uint64_t device = card.memory();
            const auto copy = [&](uint64_t host) {
                const auto bytes = static_cast<uint32_t>(size);
                return reads ? Packets().copy(host, device, bytes) : Packets().copy(device, host, bytes);
            };
            std::vector<char> other(size);
            card.run(kDown, copy(card.map(other))); // the queue's thread would otherwise map memory into the gap
            auto region = std::make_unique<Region>(size);
            const uint64_t address = card.map(region->data, size);
            region.reset();
            EXPECT_EQ(card.wait(card.submit(kDown, copy(address))), -EIO) << size << reads;
        }
    }
}

TEST_F(Memory, host_memory_protected_later_is_still_accessed) {
    for (const int protection : {PROT_NONE, PROT_READ}) {
        for (const bool reads : {true, false}) {
            Card card;
            const uint64_t device = card.memory();
            const Region region(4 * kMiB);
            const uint64_t host = card.map(region.data, 4 * kMiB);
            ASSERT_EQ(mprotect(region.data, 4 * kMiB, protection), 0);
            const uint32_t size = 4 * kMiB;
            card.run(kDown, reads ? Packets().copy(host, device, size) : Packets().copy(device, host, size));
        }
    }
}

// ---- driver-owned buffers ---------------------------------------------------------------------------------------

class Buffers : public SoftTest {
protected:
    static uint64_t request(const Card &card, uint32_t size, bool mapped = false) {
        uint64_t handle = 0;
        const int error = mapped ? hlthunk_request_mapped_command_buffer(card.fd, size, &handle)
                                 : hlthunk_request_command_buffer(card.fd, size, &handle);
        EXPECT_EQ(error, 0);
        return handle;
    }
    static char *map(const Card &card, uint64_t handle, size_t size) {
        void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, card.fd, static_cast<off_t>(handle));
        EXPECT_NE(memory, MAP_FAILED) << strerror(errno);
        return static_cast<char *>(memory);
    }
};

TEST_F(Buffers, command_buffer_of_any_size_is_mapped_by_mmap) {
    const Card card;
    for (const uint32_t size : {1u, 77u, 5000u, 92517u, 0x100000u, 0x1FFFE0u}) {
        const uint64_t handle = request(card, size);
        EXPECT_EQ(handle % 4096, 0u);
        char *memory = map(card, handle, size);
        EXPECT_EQ(std::string(memory, size), std::string(size, '\0'));
        std::memset(memory, 'x', size);
        EXPECT_EQ(munmap(memory, size), 0);
        EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, handle), 0);
    }
}

TEST_F(Buffers, wrong_command_buffer_arguments_are_refused) {
    const Card card;
    uint64_t handle = 0;
    EXPECT_EQ(hlthunk_request_command_buffer(card.fd, 0x1FFFE1, &handle), -EINVAL);
    EXPECT_EQ(hlthunk_request_mapped_command_buffer(card.fd, 0x1FFFE1, &handle), -EINVAL);
    EXPECT_EQ(hlthunk_request_command_buffer(card.fd, 4096, nullptr), -EINVAL);
    handle = request(card, 4096);
    uint32_t count = 7;
    EXPECT_EQ(hlthunk_get_cb_usage_count(card.fd, handle, &count), 0);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(hlthunk_get_cb_usage_count(card.fd, handle + 4096, &count), -EINVAL);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, handle + 4096), -EINVAL);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, 0), -EINVAL);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, handle), 0);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, handle), -EINVAL);
}

TEST_F(Buffers, unmapped_command_buffer_has_no_device_address) {
    const Card card;
    uint64_t address = 0;
    EXPECT_EQ(hlthunk_get_mapped_cb_device_va_by_handle(card.fd, request(card, 64), &address), -EINVAL);
    EXPECT_EQ(hlthunk_get_mapped_cb_device_va_by_handle(card.fd, request(card, 64, true), &address), 0);
    EXPECT_EQ(address, 0xFFF0000000000000u);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL); // the mapping belongs to the buffer
}

TEST_F(Buffers, mapped_command_buffer_is_shared_with_the_card) {
    Card card;
    const uint64_t handle = request(card, 8192, true);
    char *memory = map(card, handle, 8192);
    uint64_t address = 0;
    ASSERT_EQ(hlthunk_get_mapped_cb_device_va_by_handle(card.fd, handle, &address), 0);
    card.run(kDown, Packets().fill(0x6262626262626262, address + 4096, 100));
    EXPECT_EQ(std::string(memory + 4096, 101), std::string(100, 'b') + '\0');
    // The card runs commands from it, too.
    std::vector<unsigned char> target(64);
    const Packets packets = Packets().fill(0x0101010101010101, card.map(target), 64);
    std::memcpy(memory, packets.data(), packets.size());
    std::array chunks = {Card::chunk(kDown, address, packets.size())};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(target, std::vector<unsigned char>(64, 1));
    munmap(memory, 8192);
}

TEST_F(Buffers, destroyed_buffer_keeps_bytes_while_mmapped) {
    const Card card;
    const uint64_t handle = request(card, 4096);
    char *memory = map(card, handle, 4096);
    std::memset(memory, 'k', 4096);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, handle), 0);
    for (int i = 0; i < 10; ++i) {
        const uint64_t next = request(card, 4096);
        char *other = map(card, next, 4096);
        std::memset(other, 'o', 4096);
        munmap(other, 4096);
    }
    EXPECT_TRUE(std::all_of(memory, memory + 4096, [](char byte) { return byte == 'k'; }));
    munmap(memory, 4096);
}

TEST_F(Buffers, new_buffer_reads_zero) {
    const Card card;
    for (int i = 0; i < 5000; ++i) {
        const uint64_t handle = request(card, 4096, i % 2 == 0);
        char *memory = map(card, handle, 4096);
        ASSERT_EQ(memory[0], 0) << i;
        ASSERT_EQ(memory[4095], 0) << i;
        std::memset(memory, 'x', 4096);
        munmap(memory, 4096);
        ASSERT_EQ(hlthunk_destroy_command_buffer(card.fd, handle), 0);
    }
}

TEST_F(Buffers, timestamp_buffer_is_mapped_by_mmap) {
    const Card card;
    for (const uint32_t count : {1u, 10u, 1u << 20}) {
        uint64_t handle = 0;
        ASSERT_EQ(hlthunk_allocate_timestamp_elements(card.fd, count, &handle), 0);
        const size_t size = count * sizeof(uint64_t);
        char *memory = map(card, handle, size);
        EXPECT_EQ(memory[0], 0);
        EXPECT_EQ(memory[size - 1], 0);
        memory[size - 1] = 1;
        munmap(memory, size);
    }
}

TEST_F(Buffers, wrong_timestamp_buffer_arguments_are_refused) {
    const Card card;
    uint64_t handle = 0;
    EXPECT_EQ(hlthunk_allocate_timestamp_elements(card.fd, 0, &handle), -ENOMEM);
    EXPECT_EQ(hlthunk_allocate_timestamp_elements(card.fd, (1u << 20) + 1, &handle), -EINVAL);
    EXPECT_EQ(hlthunk_allocate_timestamp_elements(card.fd, 1, nullptr), -EINVAL);
    ASSERT_EQ(hlthunk_allocate_timestamp_elements(card.fd, 1, &handle), 0);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, handle), -EINVAL); // not a command buffer
}

} // namespace
