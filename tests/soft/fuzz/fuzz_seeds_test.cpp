// SPDX-License-Identifier: BSD-3-Clause
// Malicious command buffers on both targets of the fuzzer: each must stop, with the expected result.
#include "harness.h"
#include "soft.h"

using namespace soft;
using Kind = softgaudi::Trap::Kind;

namespace {

constexpr uint32_t kUndefined = 0x1F000000;

std::span<const unsigned char> bytes(const Packets &packets, size_t size = SIZE_MAX) {
    return {static_cast<const unsigned char *>(packets.data()), std::min<size_t>(packets.size(), size)};
}

/// Checks that the packets complete on the small bus.
void ends_well(const Packets &packets) {
    const auto trap = fuzz::run_on_small_bus(bytes(packets));
    EXPECT_FALSE(trap) << static_cast<int>(trap->kind) << ' ' << trap->address;
}
void ends_with(Kind kind, const Packets &packets, size_t size = SIZE_MAX) {
    const auto trap = fuzz::run_on_small_bus(bytes(packets, size));
    ASSERT_TRUE(trap);
    EXPECT_EQ(trap->kind, kind);
}

Packets list(uint64_t index, uint64_t table) { return Packets().add({0, 0x0E000000}).address(index).address(table); }
Packets load_and_execute(uint32_t word, uint64_t source) { return Packets().add({word, 0x0F000000}).address(source); }

TEST(SmallBus, plain_packets_complete) {
    ends_well(Packets());
    ends_well(Packets().nop().copy(0, 4096, 100).fill(1, 4096, 8).message(8192, 5).short_message(1, 0, 7).fence(1));
    ends_well(Packets().stop().add({0, kUndefined}));
}

TEST(SmallBus, truncated_packet_is_undefined) {
    for (const Packets &packets :
         {Packets().copy(0, 4096, 8), Packets().message(4096, 1), Packets().nop(), Packets().nested(4096, 8),
          list(4096, 8192), load_and_execute(0x100, 4096), Packets().add({2, 0x02000000, 1, 2, 3, 4})})
        for (size_t size = 1; size < packets.size(); ++size)
            ends_with(Kind::undefined_opcode, packets, size);
}

TEST(SmallBus, undefined_opcode_stops) {
    for (uint32_t opcode = 0; opcode < 32; ++opcode)
        if (softgaudi::packet::tail_size(static_cast<softgaudi::packet::Opcode>(opcode)) < 0)
            ends_with(Kind::undefined_opcode, Packets().nop().add({0, opcode << 24}));
}

TEST(SmallBus, self_calling_buffer_stops) {
    ends_with(Kind::undefined_opcode, Packets().nested(0, 16, true));  // by the upper processor, which can nest
    ends_with(Kind::undefined_opcode, Packets().nested(0, 16, false)); // by the lower one, which cannot
    ends_with(Kind::undefined_opcode, Packets().nop().nested(0, UINT32_MAX, true));
}

TEST(SmallBus, exponential_calls_stop_when_cancelled) {
    Packets packets;
    for (uint64_t level = 0; level < 60; ++level) // 2^60 packets
        packets.nested((level + 1) * 32, 32, true).nested((level + 1) * 32, 32, true);
    packets.nop().nop().nop().nop();
    const auto trap = fuzz::run_on_small_bus(bytes(packets));
    ASSERT_TRUE(trap);
    EXPECT_EQ(trap->kind, Kind::cancelled);
}

TEST(SmallBus, self_linked_list_stops) {
    // The list, and behind it a table whose entry runs the buffer from its start.
    Packets packets = list(4096, 24);
    packets.nested(0, 24, true);
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, list_entry_other_than_cp_dma_is_undefined) {
    Packets packets = list(4096, 24);
    packets.nop().nop();
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, list_index_out_of_memory_is_page_fault) {
    Packets packets = list(24, 0);
    packets.add({UINT32_MAX, 0x0A000000});
    const auto trap = fuzz::run_on_small_bus(bytes(packets));
    ASSERT_TRUE(trap);
}

TEST(SmallBus, scalar_packet_cannot_execute_scalars) {
    // The scalars hold LOAD_AND_EXE itself, which would execute them for ever.
    Packets packets = load_and_execute(1u | 1u << 8 | 1u << 9, 16);
    packets.add({1u | 1u << 8 | 1u << 9, 0x0F000000}).address(16);
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, cp_dma_in_scalars_counts_as_nested) {
    Packets packets = load_and_execute(1u | 1u << 8 | 1u << 9, 16);
    packets.nested(0, 16, true);
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, buffer_can_change_its_unfetched_part) {
    // Overwrites its own packet with an undefined one; packets that were fetched may still run.
    Packets packets;
    packets.message(4096 + 4, kUndefined);
    while (packets.size() < 8192)
        packets.nop();
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, size_of_all_ones_is_page_fault) {
    ends_with(Kind::page_fault, Packets().copy(0, 4096, UINT32_MAX));
    ends_with(Kind::page_fault, Packets().fill(0, 0, UINT32_MAX));
    ends_with(Kind::page_fault, Packets().nop().nested(UINT64_MAX, UINT32_MAX));
    ends_with(Kind::page_fault, Packets().message(UINT64_MAX, 1));
}

TEST(SmallBus, all_ones_and_all_zeroes_stop) {
    const std::vector<unsigned char> ones(5000, 0xFF), zeroes(5000, 0);
    EXPECT_TRUE(fuzz::run_on_small_bus(ones));
    EXPECT_TRUE(fuzz::run_on_small_bus(zeroes));
}

/// The default timeout is long enough for buffers that stop by themselves.
int run(std::span<const unsigned char> program, uint32_t queue = kDown, uint64_t timeout_ns = 30'000'000'000) {
    return fuzz::WholeCard::instance().run(program, queue, timeout_ns);
}
int run(const Packets &packets) { return run(bytes(packets)); }
int run_briefly(const Packets &packets) { return run(bytes(packets), kDown, 50'000'000); }

// Operands in the encoding of the harness.
uint64_t host(uint64_t offset) { return fuzz::WholeCard::operand(0, offset); }
uint64_t device(uint64_t offset) { return fuzz::WholeCard::operand(1, offset); }
uint64_t device_end(uint64_t before) { return fuzz::WholeCard::operand(2, before); }
uint64_t program(uint64_t offset) { return fuzz::WholeCard::operand(4, offset); }

TEST(WholeCard, plain_packets_complete) {
    EXPECT_EQ(run(Packets().nop().copy(host(0), device(0), 16384).copy(device(0), host(0), 16384)), 0);
}

TEST(WholeCard, copies_past_a_mapping_are_errors) {
    EXPECT_EQ(run(Packets().copy(device(0), host(0), 16385)), -EIO);
    EXPECT_EQ(run(Packets().copy(host(1), device(0), 16384)), -EIO);
    EXPECT_EQ(run(Packets().fill(0, host(16380), 5)), -EIO);
    EXPECT_EQ(run(Packets().copy(host(0), device_end(8), 9)), -EIO);
    EXPECT_EQ(run(Packets().message(host(16382), 1)), -EIO);
}

TEST(WholeCard, overlapping_copies_do_not_crash) {
    EXPECT_EQ(run(Packets().copy(host(0), host(1), 8000)), 0);
    EXPECT_EQ(run(Packets().copy(device(0), device(3), 100'000)), 0);
    EXPECT_EQ(run(Packets().copy(program(0), program(0), 16000)), 0);
}

TEST(WholeCard, self_calling_buffers_and_lists_are_errors) {
    EXPECT_EQ(run(Packets().nested(program(0), 16, true)), -EIO);
    EXPECT_EQ(run(Packets().nested(program(0), 16, false)), -EIO);
    Packets loop = list(host(0), program(24)); // its index is 0xA5A5A5A5
    EXPECT_EQ(run(loop.nested(program(0), 24, true)), -EIO);
}

TEST(WholeCard, closed_fence_times_out) { EXPECT_EQ(run_briefly(Packets().fence(255, 15, 3)), -ETIMEDOUT); }

TEST(WholeCard, exponential_calls_time_out) {
    Packets packets;
    for (uint64_t level = 0; level < 60; ++level)
        packets.nested(program((level + 1) * 32), 32, true).nested(program((level + 1) * 32), 32, true);
    EXPECT_EQ(run_briefly(packets.nop().nop().nop().nop()), -ETIMEDOUT);
}

TEST(WholeCard, monitor_cycle_is_an_error) {
    // The payload of each monitor arms the other one, whose condition always holds.
    Packets packets;
    for (uint32_t monitor = 500; monitor < 502; ++monitor) {
        const uint32_t other = monitor == 500 ? 501 : 500;
        const uint64_t arm = kCfg + 0x410E000 + 4 * uint64_t{other};
        const uint32_t always = 0xFE00; // object 0 is at least 0
        packets.short_message(0, 0x8000 + 4 * monitor, 0)
            .short_message(0, 4 * monitor, static_cast<uint32_t>(arm))
            .short_message(0, 0x2000 + 4 * monitor, static_cast<uint32_t>(arm >> 32))
            .short_message(0, 0x4000 + 4 * monitor, always);
    }
    packets.short_message(0, 0x6000 + 4 * 500, 0xFE00);
    EXPECT_EQ(run(packets), -EIO);
}

TEST(WholeCard, self_arming_monitor_is_an_error) {
    Packets packets;
    for (uint32_t monitor = 600; monitor < 604; ++monitor) {
        const uint64_t arm = kCfg + 0x410E000 + 4 * uint64_t{600};
        packets.short_message(0, 4 * monitor, static_cast<uint32_t>(arm))
            .short_message(0, 0x2000 + 4 * monitor, static_cast<uint32_t>(arm >> 32))
            .short_message(0, 0x4000 + 4 * monitor, 0xFE00);
    }
    packets.short_message(0, 0x8000 + 4 * 600, 3 << 5).short_message(0, 0x6000 + 4 * 600, 0xFE00);
    EXPECT_EQ(run(packets), -EIO);
}

TEST(WholeCard, any_store_to_sync_manager_does_not_crash) {
    for (uint32_t offset = 0; offset < 0x20000; offset += 0x404) {
        for (const uint32_t value : {0u, ~0u, 0x81000001u})
            run(Packets().message(fuzz::WholeCard::operand(5, offset), value));
    }
}

TEST(WholeCard, any_store_to_queue_manager_does_not_crash) {
    for (uint32_t offset = 0; offset < 0x1008; offset += 0x44)
        run(Packets().message(fuzz::WholeCard::operand(6, offset), ~0u));
}

TEST(WholeCard, all_ones_all_zeroes_and_noise_finish) {
    run(std::vector<unsigned char>(5000, 0xFF), kUp);
    run(std::vector<unsigned char>(5000, 0), kUp);
    for (unsigned seed = 0; seed < 50; ++seed)
        run(pattern(500, seed), seed % 8, 50'000'000);
}

} // namespace
