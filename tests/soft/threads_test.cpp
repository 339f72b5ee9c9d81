// SPDX-License-Identifier: BSD-3-Clause
// Hundreds of threads on one descriptor, each with memory, mappings and submissions of its own.
#include "soft.h"

#include <latch>
#include <thread>

using namespace soft;

namespace {

class Threads : public SoftTest {};

/// Maps, copies down and up, compares, unmaps.
void round_trip(int fd, uint64_t device, unsigned seed) {
    struct Buffers {
        std::vector<unsigned char> out, back;
        std::array<uint32_t, 12> commands;
    };
    const size_t size = 1000 + seed % 3000;
    Buffers buffers{pattern(size, seed), std::vector<unsigned char>(size), {}};
    const uint64_t out = hlthunk_host_memory_map(fd, buffers.out.data(), 0, size);
    const uint64_t back = hlthunk_host_memory_map(fd, buffers.back.data(), 0, size);
    const uint64_t commands = hlthunk_host_memory_map(fd, buffers.commands.data(), 0, sizeof buffers.commands);
    ASSERT_TRUE(out != 0 && back != 0 && commands != 0) << strerror(errno);
    const Packets packets =
        Packets().copy(out, device, static_cast<uint32_t>(size)).copy(device, back, static_cast<uint32_t>(size));
    std::memcpy(buffers.commands.data(), packets.data(), packets.size());
    hl_cs_chunk chunk = Card::chunk(seed % 8, commands, packets.size());
    hlthunk_cs_in in{};
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    hlthunk_cs_out result{};
    ASSERT_EQ(hlthunk_command_submission(fd, &in, &result), 0) << strerror(errno);
    uint32_t status = 99;
    ASSERT_EQ(hlthunk_wait_for_cs(fd, result.seq, kForever, &status), 0) << strerror(errno);
    ASSERT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_COMPLETED});
    ASSERT_EQ(buffers.back, buffers.out);
    for (const uint64_t address : {out, back, commands})
        ASSERT_EQ(hlthunk_memory_unmap(fd, address), 0) << strerror(errno);
}

void all_at_once(unsigned threads, const std::function<void(unsigned)> &work) {
    std::latch start(threads);
    std::vector<std::thread> running;
    for (unsigned i = 0; i < threads; ++i)
        running.emplace_back([&, i] {
            start.arrive_and_wait();
            work(i);
        });
    for (std::thread &thread : running)
        thread.join();
}

TEST_F(Threads, three_hundred_copying_keep_their_bytes_apart) {
    Card card;
    const uint64_t device = card.memory();
    all_at_once(300, [&](unsigned i) { round_trip(card.fd, device + i * uint64_t{8192}, i); });
    hlthunk_dram_usage_info usage{};
    ASSERT_EQ(hlthunk_get_dram_usage(card.fd, &usage), 0);
    EXPECT_EQ(usage.ctx_dram_mem, kPage);
    EXPECT_TRUE(hlthunk_is_device_idle(card.fd));
}

TEST_F(Threads, hundred_on_the_virtual_clock_all_finish) {
    set("SOFTGAUDI_PACE", "virtual:down:1,up:1,submit:1");
    Card card;
    const uint64_t device = card.memory();
    all_at_once(100, [&](unsigned i) { round_trip(card.fd, device + i * uint64_t{8192}, i); });
    EXPECT_TRUE(hlthunk_is_device_idle(card.fd));
}

TEST_F(Threads, hundred_in_null_pace_all_finish) {
    set("SOFTGAUDI_PACE", "null");
    Card card;
    std::vector<uint32_t> words(100);
    const uint64_t address = card.map(words), device = card.memory();
    std::vector<uint64_t> commands;
    for (unsigned i = 0; i < 100; ++i)
        commands.push_back(card.place(Packets().fill(1, device, 4).message(address + 4 * i, i + 1)));
    all_at_once(100, [&](unsigned i) {
        std::array chunks = {Card::chunk(i % 4, commands[i], 24 + 16)};
        uint64_t seq = 0;
        EXPECT_EQ(card.try_submit(chunks, seq), 0);
    });
    for (unsigned i = 0; i < 100; ++i)
        EXPECT_EQ(words[i], i + 1);
}

TEST_F(Threads, concurrent_allocations_leak_nothing) {
    Card card;
    all_at_once(64, [&](unsigned) {
        for (int round = 0; round < 10; ++round) {
            const uint64_t handle = hlthunk_device_memory_alloc(card.fd, 1, 0, false, false);
            ASSERT_NE(handle, 0u);
            const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
            ASSERT_NE(address, 0u);
            ASSERT_EQ(hlthunk_device_memory_free(card.fd, handle), -EINVAL);
            ASSERT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
            ASSERT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
        }
    });
    hlthunk_dram_usage_info usage{};
    ASSERT_EQ(hlthunk_get_dram_usage(card.fd, &usage), 0);
    EXPECT_EQ(usage.ctx_dram_mem, 0u);
}

} // namespace
