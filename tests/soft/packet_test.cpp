// SPDX-License-Identifier: BSD-3-Clause
// The effect of each packet, and the memory that command buffers can be in.
#include "steps.h"

using namespace soft;

namespace {

class Packet : public SoftTest {};

uint64_t edma_fence(uint64_t unit) { return kCfg + 0x41CA290 + unit / 2 * 0x200000 + unit % 2 * 0x10000; }

uint64_t object_register(uint32_t object) { return kSyncObjects + 4 * uint64_t{object}; }

constexpr uint32_t kAddOne = 1u << 31 | 1;

/// Whether the object has this value now: a monitor fires at once if it has.
bool object_is(Card &card, uint32_t object, uint32_t value) {
    uint32_t seen = 0;
    const uint64_t at = card.map(&seen, sizeof seen);
    card.run(kDown, Packets().monitor(2000, object, value, at, 1));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, at), 0);
    // A monitor that did not fire must not fire later.
    card.run(kDown, Packets().monitor(2000, 8000, 0, object_register(8001), 0));
    return seen == 1;
}

struct Payload {
    uint64_t address;
    uint32_t data;
};

/// A monitor with several writes: the payload of each is in the registers of the next monitor.
Packets several_writes(uint32_t monitor, uint32_t object, uint32_t value, const std::vector<Payload> &payloads) {
    Packets packets;
    for (uint32_t i = 1; i < payloads.size(); ++i) {
        packets.short_message(0, 4 * (monitor + i), static_cast<uint32_t>(payloads[i].address));
        packets.short_message(0, 0x2000 + 4 * (monitor + i), static_cast<uint32_t>(payloads[i].address >> 32));
        packets.short_message(0, 0x4000 + 4 * (monitor + i), payloads[i].data);
    }
    const auto writes = static_cast<uint32_t>(payloads.size() - 1);
    return packets.monitor(monitor, object, value, payloads[0].address, payloads[0].data, true, writes << 5);
}

Packets &load_and_execute(Packets &packets, uint32_t word, uint64_t source) {
    return packets.add({word, 0x0F000000}).address(source);
}

constexpr uint32_t kScalars = 1, kConsecutive = 2, kLoad = 1 << 8, kExecute = 1 << 9, kUpperHalf = 1 << 10;

Packets &message_if(Packets &packets, uint32_t predicate, uint64_t address, uint32_t value) {
    return packets.add({value, 0x03000000 | predicate}).address(address);
}

// ---- messages

TEST_F(Packet, message_writes_its_four_bytes_to_host_memory_and_no_others) {
    Card card;
    std::vector<uint32_t> words(8, 0x55555555);
    card.run(kDown, Packets().message(card.map(words) + 12, 0x0ded0001));
    EXPECT_EQ(words, (std::vector<uint32_t>{0x55555555, 0x55555555, 0x55555555, 0x0ded0001, 0x55555555, 0x55555555,
                                            0x55555555, 0x55555555}));
}

TEST_F(Packet, message_writes_to_card_memory_and_sram) {
    Card card;
    const uint64_t device = card.memory() + 4096;
    for (const uint64_t place : {device, kSram + 0x1000}) {
        card.run(kDown, Packets().fill(0, place - 4, 12).message(place, 0x04030201));
        EXPECT_EQ(peek(card, place - 4, 12), (std::vector<unsigned char>{0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}));
    }
}

TEST_F(Packet, message_with_timestamp_writes_the_time) {
    Card card;
    std::vector<uint64_t> times(2);
    const uint64_t at = card.map(times);
    for (const uint64_t slot : {at, at + 8})
        card.run(kDown, Packets().add({0, 0x03000000 | 1u << 20}).address(slot));
    EXPECT_GT(times[0], 0u);
    EXPECT_GE(times[1], times[0]);
}

TEST_F(Packet, message_after_a_copy_arrives_after_its_bytes) {
    Card card;
    auto out = pattern(kMiB);
    std::vector<unsigned char> back(out.size());
    std::vector<uint32_t> flag(1);
    const auto size = static_cast<uint32_t>(out.size());
    const uint64_t device = card.memory();
    card.run(kDown, Packets().copy(card.map(out), device, size));
    const uint64_t seq = card.submit(kUp, Packets().copy(device, card.map(back), size).message(card.map(flag), 1));
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::atomic_ref(flag[0]).load() == 0 && std::chrono::steady_clock::now() < give_up)
        std::this_thread::yield();
    EXPECT_EQ(out, back); // checked before the wait
    EXPECT_EQ(card.wait(seq), 0);
}

// ---- sync objects and monitors

TEST_F(Packet, sync_objects_are_set_and_added_to) {
    Card card;
    EXPECT_TRUE(object_is(card, kObject, 0));
    card.run(kDown, Packets().set_object(kObject, 7));
    EXPECT_TRUE(object_is(card, kObject, 7));
    card.run(kUp, Packets().add_object(kObject, 5).add_object(kObject, 1));
    EXPECT_TRUE(object_is(card, kObject, 13));
    EXPECT_FALSE(object_is(card, kObject, 12));
    EXPECT_TRUE(object_is(card, kObject + 1, 0));
    card.run(kDown, Packets().set_object(kObject, 2));
    EXPECT_TRUE(object_is(card, kObject, 2));
}

TEST_F(Packet, long_message_sets_a_sync_object) {
    Card card;
    card.run(kDown, Packets().message(object_register(kObject), 20).message(object_register(kObject), kAddOne));
    EXPECT_TRUE(object_is(card, kObject, 21));
}

TEST_F(Packet, reopen_clears_sync_objects) {
    {
        Card card;
        card.run(kDown, Packets().set_object(kObject, 7));
    }
    Card card;
    EXPECT_TRUE(object_is(card, kObject, 0));
}

TEST_F(Packet, equality_monitor_fires_at_the_exact_value) {
    Card card;
    const uint32_t count = kObject + 64;
    card.run(kDown, Packets().monitor(kMonitor, kObject, 5, object_register(count), kAddOne).set_object(kObject, 4));
    EXPECT_TRUE(object_is(card, count, 0));
    card.run(kDown, Packets().set_object(kObject, 6));
    EXPECT_TRUE(object_is(card, count, 0));
    card.run(kDown, Packets().set_object(kObject, 5));
    EXPECT_TRUE(object_is(card, count, 1));
}

TEST_F(Packet, at_least_monitor_fires_above_the_value) {
    Card card;
    const uint32_t count = kObject + 64;
    card.run(kDown,
             Packets().monitor(kMonitor, kObject, 5, object_register(count), kAddOne, false).set_object(kObject, 4));
    EXPECT_TRUE(object_is(card, count, 0));
    card.run(kDown, Packets().add_object(kObject, 100));
    EXPECT_TRUE(object_is(card, count, 1));
}

TEST_F(Packet, monitor_fires_once_per_arming) {
    Card card;
    const uint32_t count = kObject + 64;
    const auto arm = Packets().monitor(kMonitor, kObject, 3, object_register(count), kAddOne);
    card.run(kDown, arm);
    for (int i = 0; i < 3; ++i)
        card.run(kDown, Packets().set_object(kObject, 0).set_object(kObject, 3));
    EXPECT_TRUE(object_is(card, count, 1));
    card.run(kDown, arm); // the condition holds already
    EXPECT_TRUE(object_is(card, count, 2));
    card.run(kDown, Packets().set_object(kObject, 3));
    EXPECT_TRUE(object_is(card, count, 2));
}

TEST_F(Packet, monitor_makes_up_to_four_writes) {
    Card card;
    std::vector<uint32_t> words(5);
    const uint64_t at = card.map(words), device = card.memory();
    for (uint32_t writes = 1; writes <= 4; ++writes) {
        std::fill(words.begin(), words.end(), 0);
        std::vector<Payload> payloads = {{at, 11}, {at + 4, 12}, {device, 13}, {at + 8, 14}};
        payloads.resize(writes);
        card.run(kDown, Packets().set_object(kObject, 0).message(device, 0));
        card.run(kDown, several_writes(kMonitor, kObject, 1, payloads));
        EXPECT_EQ(words[0], 0u);
        card.run(kUp, Packets().set_object(kObject, 1));
        EXPECT_EQ(words[0], 11u);
        EXPECT_EQ(words[1], writes > 1 ? 12u : 0u);
        EXPECT_EQ(peek(card, device, 1)[0], writes > 2 ? 13 : 0);
        EXPECT_EQ(words[2], writes > 3 ? 14u : 0u);
    }
}

TEST_F(Packet, monitor_of_a_group_waits_for_all_objects) {
    Card card;
    const uint32_t count = kObject + 64;
    Packets arm;
    arm.short_message(0, 0x8000 + 4 * kMonitor, 0);
    arm.short_message(0, 4 * kMonitor, static_cast<uint32_t>(object_register(count)));
    arm.short_message(0, 0x2000 + 4 * kMonitor, static_cast<uint32_t>(object_register(count) >> 32));
    arm.short_message(0, 0x4000 + 4 * kMonitor, kAddOne);
    const uint32_t watched = 0b10000101;
    arm.short_message(0, 0x6000 + 4 * kMonitor, (kObject / 8 & 0xFF) | (~watched & 0xFF) << 8 | 2u << 17);
    card.run(kDown, arm);
    card.run(kDown, Packets().set_object(kObject, 2).set_object(kObject + 1, 2).set_object(kObject + 7, 2));
    EXPECT_TRUE(object_is(card, count, 0));
    card.run(kDown, Packets().set_object(kObject + 2, 1));
    EXPECT_TRUE(object_is(card, count, 0));
    card.run(kDown, Packets().set_object(kObject + 2, 3));
    EXPECT_TRUE(object_is(card, count, 1));
}

TEST_F(Packet, monitors_reach_objects_beyond_the_first_2048) {
    Card card;
    for (const uint32_t object : {2048u + 8 * 64 + 3, 4099u, 8191u}) {
        std::vector<uint32_t> word(1);
        card.run(kDown, Packets().monitor(kMonitor, object, 1, card.map(word), 1));
        card.run(kDown, Packets().set_object(object % 2048, 1)); // with the same low bits in its group
        EXPECT_EQ(word[0], 0u) << object;
        card.run(kDown, Packets().set_object(object, 1));
        EXPECT_EQ(word[0], 1u) << object;
    }
}

TEST_F(Packet, long_mode_joins_four_objects_to_sixty_bits) {
    Card card;
    constexpr uint64_t kStart = 0xFFFE0003FFF8000, kWanted = kStart + 0x100;
    const auto part = [](uint64_t value, unsigned i) { return static_cast<uint32_t>(value >> (15 * i)) & 0x7FFF; };
    std::vector<uint32_t> word(1);
    const uint64_t at = card.map(word);
    card.run(kDown, Packets().set_object(kObject + 1, 99)); // which the long write clears
    Packets packets;
    packets.set_object(kObject, part(kStart, 0) | 1u << 24);
    for (unsigned i = 1; i < 4; ++i)
        packets.set_object(kObject + i, part(kStart, i));
    card.run(kDown, packets);

    Packets arm;
    arm.short_message(0, 0x8000 + 4 * kMonitor, 1 | 1u << 5);
    const std::array<Payload, 2> payloads = {{{at, 77}, {object_register(8184), 0}}};
    for (uint32_t i = 0; i < 2; ++i) {
        arm.short_message(0, 4 * (kMonitor + i), static_cast<uint32_t>(payloads[i].address));
        arm.short_message(0, 0x2000 + 4 * (kMonitor + i), static_cast<uint32_t>(payloads[i].address >> 32));
        arm.short_message(0, 0x4000 + 4 * (kMonitor + i), payloads[i].data);
    }
    for (uint32_t i = 3; i > 0; --i)
        arm.short_message(0, 0x6000 + 4 * (kMonitor + i), 0xFEu << 8 | 1u << 16 | part(kWanted, i) << 17);
    arm.short_message(0, 0x6000 + 4 * kMonitor, (kObject / 8 & 0xFF) | 0xFEu << 8 | 1u << 16 | part(kWanted, 0) << 17);
    card.run(kDown, arm);
    EXPECT_EQ(word[0], 0u);
    card.run(kDown, Packets().add_object(kObject, 0xFF | 1u << 24));
    EXPECT_EQ(word[0], 0u);
    card.run(kDown, Packets().add_object(kObject, 1 | 1u << 24));
    EXPECT_EQ(word[0], 77u);
}

TEST_F(Packet, addition_in_long_mode_carries) {
    Card card;
    card.run(kDown, Packets().set_object(kObject, 0x7FFF | 1u << 24));
    card.run(kDown, Packets().add_object(kObject, 1 | 1u << 24));
    EXPECT_TRUE(object_is(card, kObject, 0));
    EXPECT_TRUE(object_is(card, kObject + 1, 1));
}

TEST_F(Packet, monitor_writes_to_card_memory_and_sram) {
    Card card;
    const uint64_t device = card.memory();
    for (const uint64_t place : {device, kSram + 256}) {
        card.run(kDown, Packets().message(place, 0).set_object(kObject, 0));
        card.run(kDown, Packets().monitor(kMonitor, kObject, 1, place, 0x0d0c0b0a).set_object(kObject, 1));
        EXPECT_EQ(peek(card, place, 4), (std::vector<unsigned char>{0x0a, 0x0b, 0x0c, 0x0d}));
    }
}

// ---- fences

TEST_F(Packet, fence_opens_by_queue_of_the_same_submission) {
    Card card;
    auto out = pattern(kMiB);
    std::vector<unsigned char> back(out.size());
    const uint64_t device = card.memory();
    const auto size = static_cast<uint32_t>(out.size());
    const auto down = Packets().copy(card.map(out), device, size).set_object(kObject, 1);
    const auto up =
        Packets().monitor(kMonitor, kObject, 1, fence_register(kUp), 1).fence().copy(device, card.map(back), size);
    std::array chunks = {Card::chunk(kUp, card.place(up), up.size()),
                         Card::chunk(kDown, card.place(down), down.size())};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(out, back);
}

TEST_F(Packet, fence_opens_by_later_submission_of_another_thread) {
    Card card;
    std::vector<uint32_t> word(1);
    const uint64_t seq = card.submit(
        kDown, Packets().monitor(kMonitor, kObject, 1, fence_register(kDown), 1).fence().message(card.map(word), 1));
    uint32_t status = 9;
    EXPECT_EQ(card.wait(seq, &status, 1000), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY});
    EXPECT_EQ(word[0], 0u);
    std::thread other([&] { card.run(kUp, Packets().set_object(kObject, 1)); });
    EXPECT_EQ(card.wait(seq, &status), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_COMPLETED});
    EXPECT_EQ(word[0], 1u);
    other.join();
}

TEST_F(Packet, fence_subtracts_only_its_decrement) {
    Card card;
    const uint64_t first = card.submit(kDown, Packets().fence(3, 2));
    const uint64_t second = card.submit(kDown, Packets().fence(2, 1));
    uint32_t status = 0;
    card.run(kUp, opening(kDown));
    card.run(kUp, opening(kDown));
    EXPECT_EQ(card.wait(first, &status, 0), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY});
    card.run(kUp, opening(kDown)); // 3: the first passes and leaves 1
    EXPECT_EQ(card.wait(first), 0);
    EXPECT_EQ(card.wait(second, &status, 1000), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY});
    card.run(kUp, opening(kDown));
    EXPECT_EQ(card.wait(second), 0);
    card.run(kDown, Packets().fence(1, 1)); // what is left outlives submissions
}

TEST_F(Packet, fences_of_streams_and_of_ids_are_separate) {
    Card card;
    constexpr uint64_t kNextId = 5 * 4; // five command processors per fence
    std::vector<uint64_t> held;
    for (uint32_t queue = 0; queue < 4; ++queue)
        held.push_back(card.submit(queue, Packets().fence(1, 1, queue)));
    for (uint32_t queue = 0; queue < 4; ++queue) {
        card.run(kUp, Packets().message(fence_register(queue) + kNextId * queue, 1));
        EXPECT_EQ(card.wait(held[queue]), 0);
        for (uint32_t later = queue + 1; later < 4; ++later) {
            uint32_t status = 0;
            EXPECT_EQ(card.wait(held[later], &status, 0), 0);
            EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY}) << queue << ' ' << later;
        }
    }
}

TEST_F(Packet, nested_buffers_wait_at_the_fence_of_the_lower_processor) {
    Card card;
    std::vector<uint32_t> word(1);
    const auto inner = Packets().fence().message(card.map(word), 1);
    const uint64_t seq = card.submit(1, Packets().nested(card.place(inner), inner.size()));
    card.run(kUp, opening(1)); // opens the upper fence: no effect
    uint32_t status = 0;
    EXPECT_EQ(card.wait(seq, &status, 1000), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY});
    card.run(3, Packets().nop()); // another stream of the same engine continues
    card.run(kUp, Packets().message(fence_register(0) + 0x10, 1));
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(word[0], 1u);
}

// ---- buffers that run other buffers

TEST_F(Packet, nested_buffer_returns_to_the_outer_one) {
    Card card;
    std::vector<uint32_t> words(3);
    const uint64_t at = card.map(words);
    for (const bool upper : {false, true}) {
        std::fill(words.begin(), words.end(), 0);
        const auto inner = Packets().message(at + 4, 2).add_object(kObject, 1);
        card.run(kOnCard, Packets()
                              .set_object(kObject, 0)
                              .message(at, 1)
                              .nested(card.place(inner), inner.size(), upper)
                              .monitor(kMonitor, kObject, 1, edma_fence(0), 1)
                              .fence()
                              .message(at + 8, 3));
        EXPECT_EQ(words, (std::vector<uint32_t>{1, 2, 3}));
    }
}

TEST_F(Packet, buffer_lists_nest_ten_deep) {
    Card card;
    constexpr uint32_t kDepth = 10;
    std::vector<uint32_t> words(kDepth);
    const uint64_t at = card.map(words), index = kSram + 64, table = kSram + 4096;
    std::vector<Packets> buffers(kDepth);
    for (uint32_t i = 0; i < kDepth; ++i) {
        buffers[i].message(at + 4 * i, i + 1);
        if (i + 1 < kDepth) // memory selects the next entry
            buffers[i].message(index, 2 * (i + 1)).add({0, 0x0E000000}).address(index).address(table);
    }
    for (uint32_t i = 0; i < kDepth; ++i) {
        const auto entry = Packets().nested(card.place(buffers[i]), buffers[i].size(), true);
        poke(card, table + 2 * i * 16, entry.data(), entry.size());
    }
    card.run(kDown, Packets().message(index, 0).add({0, 0x0E000000}).address(index).address(table));
    for (uint32_t i = 0; i < kDepth; ++i)
        EXPECT_EQ(words[i], i + 1);
}

TEST_F(Packet, list_finishes_before_the_next_buffer) {
    Card card;
    std::vector<uint32_t> seen(40);
    const uint64_t at = card.map(seen), index = kSram, table = kSram + 64, slot = kSram + 128;
    const auto inner = Packets().copy(slot, slot + 64, 4);
    const auto entry = Packets().nested(card.place(inner), inner.size(), true);
    poke(card, table, entry.data(), entry.size());
    card.run(kDown, Packets().message(index, 0));
    std::vector<uint64_t> all;
    for (uint32_t i = 0; i < seen.size(); ++i) {
        all.push_back(
            card.submit(kDown, Packets().message(slot, i + 1).add({0, 0x0E000000}).address(index).address(table)));
        all.push_back(card.submit(kDown, Packets().copy(slot + 64, at + 4 * i, 4)));
    }
    for (const uint64_t seq : all)
        EXPECT_EQ(card.wait(seq), 0);
    for (uint32_t i = 0; i < seen.size(); ++i)
        EXPECT_EQ(seen[i], i + 1);
}

// ---- predicates and scalars

TEST_F(Packet, false_predicate_skips_the_packet) {
    Card card;
    std::vector<uint32_t> words(32), flags(32);
    uint32_t joined = 0;
    for (uint32_t i = 1; i < 32; ++i) { // predicate 0 is always set and never loaded
        flags[i] = i % 3 == 0 ? 0xFFFFFFFF : 0xFFFFFFFE;
        joined |= (i % 5 == 0 ? 1u : 0u) << i;
    }
    poke(card, kSram, flags.data(), 128);
    poke(card, kSram + 128, &joined, 4);
    const uint64_t at = card.map(words);
    for (const uint32_t every : {3u, 5u}) {
        Packets packets;
        load_and_execute(packets, kLoad | (every == 5 ? kConsecutive : 0), kSram + (every == 5 ? 128 : 0));
        for (uint32_t i = 0; i < 32; ++i)
            message_if(packets, i, at + 4 * i, every);
        std::fill(words.begin(), words.end(), 0);
        card.run(kOnCard, packets);
        for (uint32_t i = 0; i < 32; ++i)
            EXPECT_EQ(words[i], i % every == 0 ? every : 0) << i;
    }
}

TEST_F(Packet, packet_in_scalars_is_executed) {
    Card card;
    std::vector<uint32_t> word(1);
    const uint64_t at = card.map(word);
    const auto stored = Packets().message(at, 0x1234);
    poke(card, kSram, stored.data(), stored.size());
    Packets packets;
    load_and_execute(packets, kScalars | kLoad, kSram);
    packets.message(kSram, 0xFFFFFFFF); // the loaded copy is used, not this memory
    load_and_execute(packets, kScalars | kExecute, 0);
    card.run(kOnCard, packets);
    EXPECT_EQ(word[0], 0x1234u);
}

TEST_F(Packet, short_packet_in_either_half_of_scalars_is_executed) {
    Card card;
    const auto stored = Packets().set_object(kObject, 5).set_object(kObject + 8, 6);
    poke(card, kSram, stored.data(), stored.size());
    Packets lower, upper;
    load_and_execute(lower, kScalars | kLoad | kExecute, kSram);
    card.run(kOnCard, lower);
    EXPECT_TRUE(object_is(card, kObject, 5));
    EXPECT_TRUE(object_is(card, kObject + 8, 0));
    load_and_execute(upper, kScalars | kLoad | kExecute | kUpperHalf, kSram);
    card.run(kOnCard, upper);
    EXPECT_TRUE(object_is(card, kObject + 8, 6));
}

// ---- nop, stop, arbitration

TEST_F(Packet, nop_does_nothing_and_stop_ends_the_buffer) {
    Card card;
    std::vector<uint32_t> words(2);
    const uint64_t at = card.map(words);
    card.run(kDown, Packets().nop().message(at, 1).nop().stop().message(at + 4, 1));
    EXPECT_EQ(words, (std::vector<uint32_t>{1, 0}));
    card.run(kDown, Packets().message(at + 4, 2)); // the queue continues
    EXPECT_EQ(words[1], 2u);
}

TEST_F(Packet, arbitration_does_not_block) {
    Card card;
    std::vector<uint32_t> words(2);
    const uint64_t at = card.map(words), qman = kCfg + 0x4C8A000;
    const auto lock = [](Packets &packets) -> Packets & { return packets.add({1, 0x0C000000}); };
    const auto release = [](Packets &packets) -> Packets & { return packets.add({1u << 31, 0x0C000000}); };
    Packets first, second;
    first.message(qman + 0xA00, 0x10).message(qman + 0xA10, 3); // arbiter configuration, a weight
    first.add({5, 0x01000000 | 0xA14u << 8});                   // the same by a register write
    lock(first);
    lock(first).fence().message(at, 1);
    release(first);
    lock(second).message(at + 4, 2);
    release(second);
    const uint64_t held = card.submit(0, first);
    card.run(1, second); // another stream of the engine, while the first holds the arbiter
    EXPECT_EQ(words, (std::vector<uint32_t>{0, 2}));
    card.run(kUp, opening(0));
    EXPECT_EQ(card.wait(held), 0);
    EXPECT_EQ(words[0], 1u);
}

TEST_F(Packet, empty_buffer_completes) {
    Card card;
    std::array chunks = {Card::chunk(kDown, 0, 0)}; // nothing is fetched, so the address is not checked
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), 0);
}

// ---- location, size and order of buffers

TEST_F(Packet, buffers_run_from_every_kind_of_memory) {
    Card card;
    std::vector<uint32_t> words(4);
    const uint64_t at = card.map(words);
    Packets packets;
    for (uint32_t i = 0; i < 4; ++i)
        packets.message(at + 4 * i, 0x0ded0000 + i);
    std::vector<char> host(8192);
    const uint64_t host_address = card.map(host), device = card.memory();
    uint64_t buffer = 0, mapped = 0;
    ASSERT_EQ(hlthunk_request_mapped_command_buffer(card.fd, 4096, &buffer), 0);
    ASSERT_EQ(hlthunk_get_mapped_cb_device_va_by_handle(card.fd, buffer, &mapped), 0);
    for (const uint64_t base : {host_address, device, kSram, mapped}) {
        for (const uint64_t offset : {0u, 1u, 8u, 77u, 4001u}) {
            if (base == mapped && offset + packets.size() > 4096)
                continue;
            std::fill(words.begin(), words.end(), 0);
            poke(card, base + offset, packets.data(), packets.size());
            std::array chunks = {Card::chunk(kOnCard, base + offset, packets.size())};
            uint64_t seq = 0;
            ASSERT_EQ(card.try_submit(chunks, seq), 0);
            EXPECT_EQ(card.wait(seq), 0);
            for (uint32_t i = 0; i < 4; ++i)
                EXPECT_EQ(words[i], 0x0ded0000 + i) << base << '+' << offset;
        }
    }
}

TEST_F(Packet, thousands_of_packets_in_one_buffer_all_run) {
    Card card;
    constexpr uint32_t kCount = 20000;
    std::vector<uint32_t> out(kCount), back(kCount);
    for (uint32_t i = 0; i < kCount; ++i)
        out[i] = i * 7 + 1;
    const uint64_t from = card.map(out), to = card.map(back), device = card.memory();
    Packets down, up;
    for (uint32_t i = 0; i < kCount; ++i) {
        down.copy(from + 4 * i, device + 8 * i, 4);
        up.copy(device + 8 * i, to + 4 * (kCount - 1 - i), 4);
    }
    card.run(kDown, down);
    card.run(kUp, up);
    for (uint32_t i = 0; i < kCount; ++i)
        ASSERT_EQ(back[i], out[kCount - 1 - i]) << i;
}

TEST_F(Packet, repeated_copy_reads_a_changed_source) {
    Card card;
    std::vector<uint32_t> word(1);
    const uint64_t device = card.memory(), at = card.map(word);
    card.run(
        kUp,
        Packets().message(device, 1).copy(device, at, 4).copy(device, at, 4).message(device, 2).copy(device, at, 4));
    EXPECT_EQ(word[0], 2u);
    card.run(kUp, Packets().copy(device, at, 4).fill(0x0303030303030303, device, 4).copy(device, at, 4));
    EXPECT_EQ(word[0], 0x03030303u);
}

TEST_F(Packet, queue_runs_buffers_in_submission_order) {
    Card card;
    constexpr uint32_t kCount = 200;
    std::vector<uint32_t> out(kCount), back(kCount);
    const uint64_t from = card.map(out), to = card.map(back), slot = card.memory();
    std::vector<uint64_t> all;
    for (uint32_t i = 0; i < kCount; ++i) {
        out[i] = i + 1;
        all.push_back(card.submit(2, Packets().copy(from + 4 * i, slot, 4)));
        all.push_back(card.submit(2, Packets().copy(slot, to + 4 * i, 4)));
    }
    for (const uint64_t seq : all)
        EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(out, back);
}

TEST_F(Packet, all_eight_device_engines_copy) {
    Card card;
    constexpr uint32_t kSize = 300001;
    auto out = pattern(kSize * kEdmaQueues.size());
    std::vector<unsigned char> back(out.size());
    const uint64_t a = card.memory(), b = card.memory();
    card.run(kDown, Packets().copy(card.map(out), a, static_cast<uint32_t>(out.size())));
    std::vector<hl_cs_chunk> chunks;
    for (uint32_t i = 0; i < kEdmaQueues.size(); ++i) { // all queues wait at their fences before the first is opened
        const auto packets = Packets()
                                 .monitor(kMonitor + i, kObject, 1, edma_fence(i), 1)
                                 .fence()
                                 .copy(a + i * kSize, b + i * kSize, kSize)
                                 .add_object(kObject + 8, 1);
        chunks.push_back(Card::chunk(kEdmaQueues[i], card.place(packets), packets.size()));
    }
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    card.run(kDown, Packets().set_object(kObject, 1));
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_TRUE(object_is(card, kObject + 8, 8));
    card.run(kUp, Packets().copy(b, card.map(back), static_cast<uint32_t>(back.size())));
    EXPECT_EQ(out, back);
}

TEST_F(Packet, queues_of_compute_engines_run_packets) {
    Card card;
    std::vector<uint32_t> word(1);
    const uint64_t at = card.map(word);
    for (const uint32_t queue : {16u, 20u, 44u, 60u, 128u, 152u, 252u}) {
        card.run(queue, Packets().message(at, queue));
        EXPECT_EQ(word[0], queue);
    }
}

} // namespace
