// SPDX-License-Identifier: BSD-3-Clause
// Exports of device memory: what can be exported, how long an export holds it, and its bytes. Importers use pread and
// pwrite, never a mapping: a card's dma-buf cannot be mapped.
#include "soft.h"

#include <climits>

using namespace soft;

namespace {

constexpr uint32_t kFlags = O_RDWR | O_CLOEXEC;

class Export : public SoftTest {
protected:
    static int export_range(const Card &card, uint64_t address, uint64_t size, uint64_t offset = 0,
                            uint32_t flags = kFlags) {
        return hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, address, size, offset, flags);
    }
};

/// The part of its block that an export covers, parsed from its name.
struct Range {
    uint64_t offset = UINT64_MAX, size = UINT64_MAX;
    bool operator==(const Range &) const = default;
};

Range range_of(int fd) {
    std::array<char, PATH_MAX> name{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    EXPECT_GT(readlink(link.c_str(), name.data(), name.size() - 1), 0);
    Range range;
    const char *part = strstr(name.data(), "/dmabuf-");
    EXPECT_TRUE(part && sscanf(part, "/dmabuf-%lu-%lu-", &range.offset, &range.size) == 2) << name.data();
    return range;
}

std::vector<unsigned char> read_at(int fd, uint64_t offset, size_t size) {
    std::vector<unsigned char> bytes(size, 0xEE);
    EXPECT_EQ(pread(fd, bytes.data(), size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
    return bytes;
}

void write_at(int fd, uint64_t offset, const std::vector<unsigned char> &bytes) {
    EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)), static_cast<ssize_t>(bytes.size()));
}

void card_writes(Card &card, uint64_t address, std::vector<unsigned char> bytes) {
    const uint64_t from = card.map(bytes);
    card.run(kDown, Packets().copy(from, address, static_cast<uint32_t>(bytes.size())));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, from), 0);
}

std::vector<unsigned char> card_reads(Card &card, uint64_t address, size_t size) {
    std::vector<unsigned char> bytes(size, 0xEE);
    const uint64_t to = card.map(bytes);
    card.run(kUp, Packets().copy(address, to, static_cast<uint32_t>(size)));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, to), 0);
    return bytes;
}

// ---- what can be exported ---------------------------------------------------------------------------------------

TEST_F(Export, both_functions_return_a_descriptor) {
    Card card;
    const uint64_t address = card.memory();
    const int first = hlthunk_device_memory_export_dmabuf_fd(card.fd, address, kPage, 0); // this function ignores flags
    const int second = export_range(card, address, kPage);
    for (const int fd : {first, second}) {
        ASSERT_GE(fd, 0) << strerror(errno);
        EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        EXPECT_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
        EXPECT_EQ(close(fd), 0);
    }
}

TEST_F(Export, other_flags_than_the_drivers_are_refused) {
    Card card;
    const uint64_t address = card.memory();
    for (const int flags : {0, O_RDWR, O_CLOEXEC, O_RDONLY | O_CLOEXEC, O_RDWR | O_CLOEXEC | O_NONBLOCK})
        EXPECT_EQ(export_range(card, address, kPage, 0, static_cast<uint32_t>(flags)), -EINVAL) << flags;
}

TEST_F(Export, address_inside_a_mapping_is_refused) {
    Card card;
    const uint64_t handle = hlthunk_device_memory_alloc(card.fd, 2 * kPage, 0, false, false);
    const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
    for (const uint64_t wrong : {uint64_t{0}, handle, address + 4096, address + kPage, address + 2 * kPage,
                                 address - 4096, uint64_t{0x1000FFFFFD000000}}) {
        EXPECT_EQ(export_range(card, wrong, 4096), -EINVAL) << std::hex << wrong;
        EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(card.fd, wrong, 4096, 0), -EINVAL) << std::hex << wrong;
    }
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    EXPECT_EQ(export_range(card, address, 4096), -EINVAL);
}

TEST_F(Export, host_memory_and_command_buffers_are_refused) {
    Card card;
    std::vector<char> host(16384);
    EXPECT_EQ(export_range(card, card.map(host), 4096), -EINVAL);
    void *page = aligned_alloc(4096, 8192);
    EXPECT_EQ(export_range(card, card.map(page, 8192), 4096), -EINVAL);
    uint64_t handle = 0, address = 0;
    ASSERT_EQ(hlthunk_request_mapped_command_buffer(card.fd, 4096, &handle), 0);
    ASSERT_EQ(hlthunk_get_mapped_cb_device_va_by_handle(card.fd, handle, &address), 0);
    EXPECT_EQ(export_range(card, address, 4096), -EINVAL);
    std::free(page);
}

TEST_F(Export, partial_pages_are_refused) {
    Card card;
    const uint64_t address = card.memory();
    for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4097}, kPage - 1})
        EXPECT_EQ(export_range(card, address, size), -EINVAL) << size;
    for (const uint64_t offset : {uint64_t{1}, uint64_t{4095}, uint64_t{4097}})
        EXPECT_EQ(export_range(card, address, 4096, offset), -EINVAL) << offset;
}

TEST_F(Export, range_past_the_allocation_is_refused) {
    Card card;
    const uint64_t address = card.memory(kPage + 1); // two pages
    EXPECT_EQ(export_range(card, address, 2 * kPage + 4096), -EINVAL);
    EXPECT_EQ(export_range(card, address, kPage + 4096, kPage), -EINVAL);
    EXPECT_EQ(export_range(card, address, 4096, 2 * kPage), -EINVAL);
    EXPECT_EQ(export_range(card, address, 8192, UINT64_MAX - 4095), -EINVAL);
    EXPECT_EQ(export_range(card, address, UINT64_MAX - 4095, 8192), -EINVAL);
    for (const auto &[size, offset] : {std::pair{2 * kPage, uint64_t{0}}, {kPage, kPage}, {4096, 2 * kPage - 4096}}) {
        const int fd = export_range(card, address, size, offset);
        ASSERT_GE(fd, 0);
        EXPECT_EQ(range_of(fd), (Range{offset, size}));
        EXPECT_EQ(close(fd), 0);
    }
}

TEST_F(Export, control_node_is_refused) {
    Card card;
    const uint64_t address = card.memory();
    const int control = hlthunk_open_control(0, nullptr);
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(control, address, kPage, 0, kFlags), -ENOTTY);
    EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(control, address, kPage, 0), -ENOTTY);
    EXPECT_EQ(hlthunk_close(control), 0);
}

TEST_F(Export, reset_refuses_new_exports_and_old_ones_keep_the_card_busy) {
    set("SOFTGAUDI_FAULTS", "is_device_idle#1=reset");
    const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:19:00.0");
    const uint64_t handle = hlthunk_device_memory_alloc(fd, kPage, 0, false, false);
    const uint64_t address = hlthunk_device_memory_map(fd, handle, 0);
    const int dmabuf = hlthunk_device_memory_export_dmabuf_fd(fd, address, kPage, 0);
    ASSERT_GE(dmabuf, 0);
    EXPECT_FALSE(hlthunk_is_device_idle(fd));
    EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(fd, address, kPage, 0), -EBUSY);
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(fd, address, kPage, 0, kFlags), -EBUSY);
    EXPECT_EQ(hlthunk_close(fd), 0);
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:19:00.0"), -EBUSY);
    EXPECT_EQ(close(dmabuf), 0);
    Card card("0000:19:00.0");
    const int again = export_range(card, card.memory(), kPage);
    EXPECT_GE(again, 0);
    EXPECT_EQ(close(again), 0);
}

// ---- how long an export holds its memory ------------------------------------------------------------------------

TEST_F(Export, unmap_is_refused_until_the_last_duplicate_closes) {
    Card card;
    const uint64_t handle = hlthunk_device_memory_alloc(card.fd, kPage, 0, false, false);
    const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
    const int fd = export_range(card, address, 4096, 8192);
    const int copy = dup(fd);
    ASSERT_GE(copy, 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
    EXPECT_EQ(close(fd), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), -EINVAL);
    EXPECT_EQ(close(copy), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
}

TEST_F(Export, exports_of_one_mapping_are_independent) {
    Card card;
    const uint64_t address = card.memory();
    const int first = export_range(card, address, kPage), second = export_range(card, address, kPage);
    EXPECT_EQ(lseek(first, 1000, SEEK_SET), 1000);
    EXPECT_EQ(lseek(second, 0, SEEK_CUR), 0);
    EXPECT_EQ(close(first), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
    card_writes(card, address, pattern(100));
    EXPECT_EQ(read_at(second, 0, 100), pattern(100));
    EXPECT_EQ(close(second), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
}

TEST_F(Export, other_mapping_of_the_block_can_be_unmapped) {
    Card card;
    const uint64_t handle = hlthunk_device_memory_alloc(card.fd, kPage, 0, false, false);
    const uint64_t first = hlthunk_device_memory_map(card.fd, handle, 0);
    const uint64_t second = hlthunk_device_memory_map(card.fd, handle, 0);
    const int fd = export_range(card, first, kPage);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, second), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, first), -EINVAL);
    EXPECT_EQ(close(fd), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, first), 0);
}

TEST_F(Export, other_block_can_be_unmapped) {
    Card card;
    const uint64_t a = card.memory(), b = card.memory();
    const int fd = export_range(card, a, kPage);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, b), 0);
    EXPECT_EQ(close(fd), 0);
}

TEST_F(Export, hundreds_at_once_succeed) {
    Card card;
    const uint64_t address = card.memory();
    std::vector<int> exports;
    for (uint64_t i = 0; i < 300; ++i) {
        exports.push_back(export_range(card, address, 4096, i * 4096));
        ASSERT_GE(exports.back(), 0) << i << ' ' << strerror(errno);
    }
    for (uint64_t i = 0; i < exports.size(); ++i)
        EXPECT_EQ(range_of(exports[i]), (Range{i * 4096, 4096}));
    for (const int fd : exports)
        EXPECT_EQ(close(fd), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
}

TEST_F(Export, closed_card_stays_busy_until_the_export_closes) {
    const char *name = "0000:19:00.0";
    const int control = hlthunk_open_control(0, nullptr);
    const auto active = [&] {
        hlthunk_open_stats_info stats{};
        EXPECT_EQ(hlthunk_get_open_stats(control, &stats), 0);
        return stats.is_compute_ctx_active != 0;
    };
    const auto free_memory = [&] {
        hlthunk_dram_usage_info usage{};
        EXPECT_EQ(hlthunk_get_dram_usage(control, &usage), 0);
        return usage.dram_free_mem;
    };
    int dmabuf = -1;
    {
        Card card(name);
        const uint64_t address = card.memory();
        card_writes(card, address, pattern(5000));
        dmabuf = export_range(card, address, kPage);
        ASSERT_GE(dmabuf, 0);
    }
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, name), -EBUSY);
    EXPECT_TRUE(active());
    EXPECT_EQ(free_memory(), 126 * kPage);
    EXPECT_EQ(read_at(dmabuf, 0, 5000), pattern(5000));
    EXPECT_EQ(close(dmabuf), 0);
    EXPECT_FALSE(active());
    EXPECT_EQ(free_memory(), 127 * kPage);
    const Card again(name);
    EXPECT_EQ(hlthunk_close(control), 0);
}

// ---- the descriptor and its bytes -------------------------------------------------------------------------------

TEST_F(Export, seek_to_end_gives_the_size) {
    Card card;
    for (const uint64_t pages : {uint64_t{1}, uint64_t{3}, uint64_t{100}}) {
        const int fd = export_range(card, card.memory(pages * kPage), pages * kPage);
        ASSERT_GE(fd, 0);
        EXPECT_EQ(lseek(fd, 0, SEEK_END), static_cast<off_t>(pages * kPage));
        EXPECT_EQ(lseek(fd, 0, SEEK_SET), 0);
        EXPECT_EQ(close(fd), 0);
    }
}

TEST_F(Export, card_write_is_read_by_importer) {
    Card card;
    const uint64_t address = card.memory();
    const int fd = export_range(card, address, kPage);
    ASSERT_GE(fd, 0);
    const auto large = pattern(5 * kMiB + 3, 1), small = pattern(100, 2);
    card_writes(card, address + 999, large);
    EXPECT_EQ(read_at(fd, 999, large.size()), large);
    card_writes(card, address + kPage - 100, small);
    EXPECT_EQ(read_at(fd, kPage - 100, small.size()), small);
    EXPECT_EQ(read_at(fd, kPage / 2, 4096), std::vector<unsigned char>(4096, 0));
    EXPECT_EQ(close(fd), 0);
}

TEST_F(Export, importer_write_is_read_by_card) {
    Card card;
    const uint64_t address = card.memory();
    const int fd = export_range(card, address, kPage);
    ASSERT_GE(fd, 0);
    const auto large = pattern(5 * kMiB + 3, 3), small = pattern(100, 4);
    write_at(fd, 999, large);
    EXPECT_EQ(card_reads(card, address + 999, large.size()), large);
    write_at(fd, 2 * kMiB, small);
    EXPECT_EQ(card_reads(card, address + 2 * kMiB, small.size()), small);
    EXPECT_EQ(close(fd), 0);
}

TEST_F(Export, name_holds_offset_and_size) {
    Card card;
    const uint64_t address = card.memory();
    const uint64_t offset = 3 * kMiB;
    const int fd = export_range(card, address, 8192, offset);
    ASSERT_GE(fd, 0);
    const int copy = dup(fd);
    EXPECT_EQ(range_of(copy), (Range{offset, 8192}));
    card_writes(card, address + offset, pattern(8192));
    EXPECT_EQ(read_at(fd, range_of(fd).offset, 8192), pattern(8192));
    EXPECT_EQ(close(copy), 0);
    EXPECT_EQ(close(fd), 0);
}

TEST_F(Export, name_is_unlinked_from_the_directory) {
    Card card;
    const int fd = export_range(card, card.memory(), kPage);
    for (const auto &entry : std::filesystem::recursive_directory_iterator(dir()))
        EXPECT_NE(entry.path().filename().string().substr(0, 6), "dmabuf") << entry.path();
    EXPECT_EQ(close(fd), 0);
}

// ---- quirks -----------------------------------------------------------------------------------------------------

TEST_F(Export, mainline_quirk_ignores_the_offset) {
    set("SOFTGAUDI_QUIRKS", "mainline");
    Card card;
    const uint64_t address = card.memory();
    card_writes(card, address, pattern(4096, 1));
    card_writes(card, address + kMiB, pattern(4096, 2));
    const int fd = export_range(card, address, 4096, kMiB);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(range_of(fd), (Range{0, 4096}));
    EXPECT_EQ(read_at(fd, range_of(fd).offset, 4096), pattern(4096, 1));
    EXPECT_EQ(export_range(card, address, kPage, 4096), -EINVAL); // the offset is checked nevertheless
    EXPECT_EQ(close(fd), 0);
}

class PostedExport : public Export {
protected:
    PostedExport() { set("SOFTGAUDI_QUIRKS", "posted"); }
};

TEST_F(PostedExport, importer_write_reaches_card_after_flush) {
    Card card;
    const uint64_t address = card.memory();
    const int fd = export_range(card, address, kPage);
    ASSERT_GE(fd, 0);
    const auto old_bytes = pattern(2 * kMiB + 5, 1), new_bytes = pattern(2 * kMiB + 5, 2);
    card_writes(card, address + 77, old_bytes);
    write_at(fd, 77, new_bytes);
    EXPECT_EQ(read_at(fd, 77, new_bytes.size()), new_bytes); // the importer sees its own writes
    EXPECT_EQ(card_reads(card, address + 77, old_bytes.size()), old_bytes);
    ASSERT_EQ(hlthunk_cs_flush_pci_hbw_writes(card.fd), 0);
    EXPECT_EQ(card_reads(card, address + 77, new_bytes.size()), new_bytes);
    EXPECT_EQ(close(fd), 0);
}

TEST_F(PostedExport, importer_write_to_unwritten_memory_waits_for_flush) {
    Card card;
    const uint64_t address = card.memory();
    const int fd = export_range(card, address, kPage);
    write_at(fd, 5 * kMiB, pattern(100));
    EXPECT_EQ(card_reads(card, address + 5 * kMiB, 100), std::vector<unsigned char>(100, 0));
    ASSERT_EQ(hlthunk_cs_flush_pci_hbw_writes(card.fd), 0);
    EXPECT_EQ(card_reads(card, address + 5 * kMiB, 100), pattern(100));
    EXPECT_EQ(close(fd), 0);
}

TEST_F(PostedExport, flush_keeps_card_writes) {
    Card card;
    const uint64_t address = card.memory();
    const int fd = export_range(card, address, kPage);
    // By copy, fill and message, over earlier writes of an importer.
    write_at(fd, 0, pattern(3 * 4096, 1));
    card_writes(card, address, pattern(4096, 2));
    card.run(kOnCard, Packets().fill(0x0303030303030303, address + 4096, 4096));
    card.run(kDown, Packets().message(address + 8192, 0x04040404));
    ASSERT_EQ(hlthunk_cs_flush_pci_hbw_writes(card.fd), 0);
    EXPECT_EQ(card_reads(card, address, 4096), pattern(4096, 2));
    EXPECT_EQ(card_reads(card, address + 4096, 4096), std::vector<unsigned char>(4096, 3));
    EXPECT_EQ(card_reads(card, address + 8192, 4), std::vector<unsigned char>(4, 4));
    EXPECT_EQ(close(fd), 0);
}

TEST_F(PostedExport, flush_keeps_zeroes_copied_by_card) {
    Card card;
    const uint64_t address = card.memory(), empty = card.memory();
    const int fd = export_range(card, address, kPage);
    write_at(fd, 0, pattern(4 * kMiB, 1));
    card.run(kOnCard, Packets().copy(empty, address, 4 * kMiB));
    ASSERT_EQ(hlthunk_cs_flush_pci_hbw_writes(card.fd), 0);
    EXPECT_EQ(card_reads(card, address, 4 * kMiB), std::vector<unsigned char>(4 * kMiB, 0));
    EXPECT_EQ(close(fd), 0);
}

TEST_F(PostedExport, card_write_is_read_by_importer_without_flush) {
    Card card;
    const uint64_t address = card.memory();
    const int fd = export_range(card, address, kPage);
    card_writes(card, address + 12345, pattern(kMiB));
    EXPECT_EQ(read_at(fd, 12345, kMiB), pattern(kMiB));
    card.run(kOnCard, Packets().fill(0x0909090909090909, address + 12345, 64));
    EXPECT_EQ(read_at(fd, 12345, 64), std::vector<unsigned char>(64, 9));
    card.run(kDown, Packets().message(address + 4 * kMiB, 0x05050505));
    EXPECT_EQ(read_at(fd, 4 * kMiB, 4), std::vector<unsigned char>(4, 5));
    EXPECT_EQ(close(fd), 0);
}

TEST_F(PostedExport, flush_without_exports_changes_nothing) {
    Card card;
    const uint64_t address = card.memory();
    card_writes(card, address, pattern(4096));
    ASSERT_EQ(hlthunk_cs_flush_pci_hbw_writes(card.fd), 0);
    EXPECT_EQ(card_reads(card, address, 4096), pattern(4096));
}

} // namespace
