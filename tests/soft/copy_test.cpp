// SPDX-License-Identifier: BSD-3-Clause
// Copies by LIN_DMA packets: exactly the requested bytes arrive.
#include "soft.h"

using namespace soft;

namespace {

class Copy : public SoftTest {};

TEST_F(Copy, host_to_card_and_back_keeps_every_byte) {
    Card card;
    auto out = pattern(3 * kMiB + 5);
    std::vector<unsigned char> back(out.size());
    const uint64_t device = card.memory() + 12345;
    card.run(kDown, Packets().copy(card.map(out), device, static_cast<uint32_t>(out.size())));
    card.run(kUp, Packets().copy(device, card.map(back), static_cast<uint32_t>(back.size())));
    EXPECT_EQ(out, back);
}

TEST_F(Copy, between_two_blocks_keeps_every_byte) {
    Card card;
    auto out = pattern(kMiB + 3);
    std::vector<unsigned char> back(out.size());
    const uint64_t a = card.memory(), b = card.memory() + 777;
    const auto size = static_cast<uint32_t>(out.size());
    card.run(kDown, Packets().copy(card.map(out), a, size));
    card.run(kOnCard, Packets().copy(a, b, size));
    card.run(kUp, Packets().copy(b, card.map(back), size));
    EXPECT_EQ(out, back);
}

TEST_F(Copy, bytes_beside_the_range_stay) {
    Card card;
    std::vector<unsigned char> zeros(4096, 0), ones(4096, 1), back(8192, 7);
    const uint64_t device = card.memory();
    card.run(kDown, Packets().copy(card.map(zeros), device, 4096).copy(card.map(ones), device + 1001, 13));
    card.run(kUp, Packets().copy(device, card.map(back) + 3, 4096));
    for (size_t i = 0; i < back.size(); ++i) {
        const bool inside = i >= 3 && i < 3 + 4096;
        const size_t at = i - 3;
        EXPECT_EQ(back[i], !inside ? 7 : at >= 1001 && at < 1014 ? 1 : 0) << i;
    }
}

TEST_F(Copy, fill_repeats_its_value) {
    Card card;
    std::vector<unsigned char> back(64, 9);
    const uint64_t device = card.memory();
    card.run(kOnCard, Packets().fill(0x0807060504030201, device, 30));
    card.run(kUp, Packets().copy(device, card.map(back), 64));
    for (size_t i = 0; i < back.size(); ++i)
        EXPECT_EQ(back[i], i < 30 ? i % 8 + 1 : 0) << i;
}

TEST_F(Copy, endian_swap_reverses_elements) {
    Card card;
    auto out = pattern(4096);
    const uint64_t from = card.map(out), device = card.memory();
    for (unsigned endian = 1; endian <= 3; ++endian) {
        std::vector<unsigned char> back(out.size());
        card.run(kDown, Packets().copy(from, device, 4096, endian));
        card.run(kUp, Packets().copy(device, card.map(back), 4096));
        const size_t element = size_t{1} << endian;
        for (size_t i = 0; i < out.size(); ++i)
            ASSERT_EQ(back[i], out[i / element * element + element - 1 - i % element]) << endian << ' ' << i;
    }
}

TEST_F(Copy, through_sram_keeps_every_byte) {
    Card card;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(card.fd, &info), 0);
    auto out = pattern(100000);
    std::vector<unsigned char> back(out.size());
    const uint64_t sram = info.sram_base_address + info.sram_size - 100000;
    card.run(kDown, Packets().copy(card.map(out), sram, 100000));
    card.run(kUp, Packets().copy(sram, card.map(back), 100000));
    EXPECT_EQ(out, back);
}

TEST_F(Copy, unwritten_memory_reads_zero_and_uses_no_tmpfs) {
    Card card;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(card.fd, &info), 0);
    const uint64_t device = card.memory(info.dram_size); // far more than this machine's memory
    card.run(kOnCard, Packets().copy(device, device + info.dram_size / 2, UINT32_MAX));
    std::vector<unsigned char> back(4096, 1);
    card.run(kUp, Packets().copy(device + info.dram_size - 4096, card.map(back), 4096));
    EXPECT_EQ(back, std::vector<unsigned char>(4096, 0));
}

TEST_F(Copy, host_to_host_keeps_every_byte) {
    Card card;
    auto out = pattern(kMiB);
    std::vector<unsigned char> back(out.size());
    card.run(kDown, Packets().copy(card.map(out), card.map(back), static_cast<uint32_t>(out.size())));
    EXPECT_EQ(out, back);
}

TEST_F(Copy, across_adjacent_mappings_keeps_every_byte) {
    Card card;
    auto out = pattern(3 * 4096);
    void *memory = mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(memory, out.data(), out.size());
    auto *pages = static_cast<char *>(memory);
    const uint64_t first = card.map(pages, 4096);
    for (uint64_t i = 1; i < 3; ++i)
        ASSERT_EQ(hlthunk_host_memory_map_flags(card.fd, pages + i * 4096, first + i * 4096, 4096, HL_MEM_FORCE_HINT),
                  first + i * 4096);
    std::vector<unsigned char> back(out.size());
    const uint64_t device = card.memory();
    card.run(kDown, Packets().copy(first, device, 3 * 4096));
    card.run(kUp, Packets().copy(device, card.map(back), 3 * 4096));
    EXPECT_EQ(out, back);
    munmap(memory, 3 * 4096);
}

} // namespace
