// SPDX-License-Identifier: BSD-3-Clause
// Command buffers made to do harm, on both machines of the fuzzer: they end, and end the way they should.
#include "harness.h"
#include "soft.h"

using namespace soft;
using Kind = softgaudi::Trap::Kind;

namespace {

constexpr uint32_t kUndefined = 0x1F000000;

std::span<const unsigned char> bytes(const Packets &packets, size_t size = SIZE_MAX) {
    return {static_cast<const unsigned char *>(packets.data()), std::min<size_t>(packets.size(), size)};
}

/// Ends without an error on the small bus.
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

TEST(SmallBus, plain_packets_end_well) {
    ends_well(Packets());
    ends_well(Packets().nop().copy(0, 4096, 100).fill(1, 4096, 8).message(8192, 5).short_message(1, 0, 7).fence(1));
    ends_well(Packets().stop().add({0, kUndefined}));
}

TEST(SmallBus, a_packet_cut_off_anywhere_is_no_packet) {
    for (const Packets &packets :
         {Packets().copy(0, 4096, 8), Packets().message(4096, 1), Packets().nop(), Packets().nested(4096, 8),
          list(4096, 8192), load_and_execute(0x100, 4096), Packets().add({2, 0x02000000, 1, 2, 3, 4})})
        for (size_t size = 1; size < packets.size(); ++size)
            ends_with(Kind::undefined_opcode, packets, size);
}

TEST(SmallBus, opcodes_that_are_none_end_it) {
    for (uint32_t opcode = 0; opcode < 32; ++opcode)
        if (softgaudi::packet::tail_size(static_cast<softgaudi::packet::Opcode>(opcode)) < 0)
            ends_with(Kind::undefined_opcode, Packets().nop().add({0, opcode << 24}));
}

TEST(SmallBus, a_buffer_that_calls_itself_ends) {
    ends_with(Kind::undefined_opcode, Packets().nested(0, 16, true));  // by the upper processor, which may call on
    ends_with(Kind::undefined_opcode, Packets().nested(0, 16, false)); // by the lower one, which may not
    ends_with(Kind::undefined_opcode, Packets().nop().nested(0, UINT32_MAX, true));
}

TEST(SmallBus, buffers_that_call_the_next_one_twice_end_when_they_are_no_longer_wanted) {
    Packets packets;
    for (uint64_t level = 0; level < 60; ++level) // 2 to the 60 packets, if it were left alone
        packets.nested((level + 1) * 32, 32, true).nested((level + 1) * 32, 32, true);
    packets.nop().nop().nop().nop();
    const auto trap = fuzz::run_on_small_bus(bytes(packets));
    ASSERT_TRUE(trap);
    EXPECT_EQ(trap->kind, Kind::cancelled);
}

TEST(SmallBus, a_list_that_leads_to_itself_ends) {
    // The list, and behind it a table whose entry runs the buffer from its start.
    Packets packets = list(4096, 24);
    packets.nested(0, 24, true);
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, a_list_entry_must_be_a_call) {
    Packets packets = list(4096, 24);
    packets.nop().nop();
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, an_index_beyond_all_memory_is_a_page_fault) {
    Packets packets = list(24, 0);
    packets.add({UINT32_MAX, 0x0A000000});
    const auto trap = fuzz::run_on_small_bus(bytes(packets));
    ASSERT_TRUE(trap);
}

TEST(SmallBus, a_packet_in_registers_cannot_execute_registers) {
    // Scalars hold LOAD_AND_EXE itself: execute what was loaded, for ever.
    Packets packets = load_and_execute(1u | 1u << 8 | 1u << 9, 16);
    packets.add({1u | 1u << 8 | 1u << 9, 0x0F000000}).address(16);
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, a_call_from_registers_counts_as_a_call) {
    Packets packets = load_and_execute(1u | 1u << 8 | 1u << 9, 16);
    packets.nested(0, 16, true);
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, a_buffer_may_change_itself_beyond_what_was_fetched) {
    // Overwrites a packet of its own with one that is none; those fetched already may still run.
    Packets packets;
    packets.message(4096 + 4, kUndefined);
    while (packets.size() < 8192)
        packets.nop();
    ends_with(Kind::undefined_opcode, packets);
}

TEST(SmallBus, sizes_that_are_all_ones_are_page_faults) {
    ends_with(Kind::page_fault, Packets().copy(0, 4096, UINT32_MAX));
    ends_with(Kind::page_fault, Packets().fill(0, 0, UINT32_MAX));
    ends_with(Kind::page_fault, Packets().nop().nested(UINT64_MAX, UINT32_MAX));
    ends_with(Kind::page_fault, Packets().message(UINT64_MAX, 1));
}

TEST(SmallBus, all_ones_and_all_zeroes_end) {
    const std::vector<unsigned char> ones(5000, 0xFF), zeroes(5000, 0);
    EXPECT_TRUE(fuzz::run_on_small_bus(ones));
    EXPECT_TRUE(fuzz::run_on_small_bus(zeroes));
}

/// Long enough for what ends by itself, unless the test is about what does not.
int run(std::span<const unsigned char> program, uint32_t queue = kDown, uint64_t timeout_ns = 30'000'000'000) {
    return fuzz::WholeCard::instance().run(program, queue, timeout_ns);
}
int run(const Packets &packets) { return run(bytes(packets)); }
int run_briefly(const Packets &packets) { return run(bytes(packets), kDown, 50'000'000); }

// Operands as the harness reads them.
uint64_t host(uint64_t offset) { return fuzz::WholeCard::operand(0, offset); }
uint64_t device(uint64_t offset) { return fuzz::WholeCard::operand(1, offset); }
uint64_t device_end(uint64_t before) { return fuzz::WholeCard::operand(2, before); }
uint64_t program(uint64_t offset) { return fuzz::WholeCard::operand(4, offset); }

TEST(WholeCard, plain_packets_end_well) {
    EXPECT_EQ(run(Packets().nop().copy(host(0), device(0), 16384).copy(device(0), host(0), 16384)), 0);
}

TEST(WholeCard, copies_that_run_over_an_end_are_errors) {
    EXPECT_EQ(run(Packets().copy(device(0), host(0), 16385)), -EIO);
    EXPECT_EQ(run(Packets().copy(host(1), device(0), 16384)), -EIO);
    EXPECT_EQ(run(Packets().fill(0, host(16380), 5)), -EIO);
    EXPECT_EQ(run(Packets().copy(host(0), device_end(8), 9)), -EIO);
    EXPECT_EQ(run(Packets().message(host(16382), 1)), -EIO);
}

TEST(WholeCard, copies_that_overlap_do_no_harm) {
    EXPECT_EQ(run(Packets().copy(host(0), host(1), 8000)), 0);
    EXPECT_EQ(run(Packets().copy(device(0), device(3), 100'000)), 0);
    EXPECT_EQ(run(Packets().copy(program(0), program(0), 16000)), 0);
}

TEST(WholeCard, buffers_and_lists_that_call_themselves_are_errors) {
    EXPECT_EQ(run(Packets().nested(program(0), 16, true)), -EIO);
    EXPECT_EQ(run(Packets().nested(program(0), 16, false)), -EIO);
    Packets loop = list(host(0), program(24)); // an index of 0xA5A5A5A5
    EXPECT_EQ(run(loop.nested(program(0), 24, true)), -EIO);
}

TEST(WholeCard, a_fence_that_nobody_opens_times_out) {
    EXPECT_EQ(run_briefly(Packets().fence(255, 15, 3)), -ETIMEDOUT);
}

TEST(WholeCard, buffers_that_call_the_next_one_twice_time_out) {
    Packets packets;
    for (uint64_t level = 0; level < 60; ++level)
        packets.nested(program((level + 1) * 32), 32, true).nested(program((level + 1) * 32), 32, true);
    EXPECT_EQ(run_briefly(packets.nop().nop().nop().nop()), -ETIMEDOUT);
}

TEST(WholeCard, monitors_that_trigger_in_a_circle_are_errors) {
    // The payload of each monitor arms the other, whose condition always holds.
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

TEST(WholeCard, a_monitor_that_arms_itself_with_four_writes_is_an_error) {
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

TEST(WholeCard, every_register_of_a_sync_manager_may_be_written_with_anything) {
    for (uint32_t offset = 0; offset < 0x20000; offset += 0x404) {
        for (const uint32_t value : {0u, ~0u, 0x81000001u})
            run(Packets().message(fuzz::WholeCard::operand(5, offset), value));
    }
}

TEST(WholeCard, every_register_of_a_queue_manager_may_be_written_with_anything) {
    for (uint32_t offset = 0; offset < 0x1008; offset += 0x44)
        run(Packets().message(fuzz::WholeCard::operand(6, offset), ~0u));
}

TEST(WholeCard, all_ones_all_zeroes_and_noise_end) {
    run(std::vector<unsigned char>(5000, 0xFF), kUp);
    run(std::vector<unsigned char>(5000, 0), kUp);
    for (unsigned seed = 0; seed < 50; ++seed)
        run(pattern(500, seed), seed % 8, 50'000'000);
}

} // namespace
