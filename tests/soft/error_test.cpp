// SPDX-License-Identifier: BSD-3-Clause
// Errors of a card: records, notification, their effect on other work, and recovery.
#include "restricted.h"
#include "steps.h"

#include <poll.h>
#include <sys/epoll.h>

using namespace soft;

namespace {

class Error : public SoftTest {};

constexpr uint64_t kPageFault =
    HL_NOTIFIER_EVENT_PAGE_FAULT | HL_NOTIFIER_EVENT_USER_ENGINE_ERR | HL_NOTIFIER_EVENT_DEVICE_RESET;
constexpr uint64_t kUndefinedOpcode =
    HL_NOTIFIER_EVENT_UNDEFINED_OPCODE | HL_NOTIFIER_EVENT_USER_ENGINE_ERR | HL_NOTIFIER_EVENT_DEVICE_RESET;
constexpr uint64_t kIllegalAccess =
    HL_NOTIFIER_EVENT_RAZWI | HL_NOTIFIER_EVENT_USER_ENGINE_ERR | HL_NOTIFIER_EVENT_DEVICE_RESET;

constexpr uint64_t kNowhereOnHost = 0xFFF0123456789A00, kNowhereOnCard = 0x10010A0012345678;

hlthunk_page_fault_info page_fault(int fd) {
    hlthunk_page_fault_info info{};
    std::array<hlthunk_page_fault_mapping, 256> mappings{};
    info.mappings = mappings.data();
    EXPECT_EQ(hlthunk_get_page_fault_info(fd, &info, mappings.size()), 0);
    info.mappings = nullptr;
    return info;
}

/// Submits work that resets the card and checks what all such errors have in common.
void expect_reset(Card &card, uint32_t queue, const Packets &packets, uint64_t events) {
    const Notifier notifier(card);
    const uint32_t before = hard_resets(card.fd);
    const uint64_t seq = card.submit(queue, packets);
    uint32_t status = 0;
    errno = 0;
    EXPECT_EQ(card.wait(seq, &status), -EIO);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_ABORTED});
    EXPECT_EQ(notifier.receive(), events);
    EXPECT_EQ(notifier.receive(0), 0u); // notified once
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_IN_RESET);
    EXPECT_EQ(hard_resets(card.fd), before + 1);
}

Packets bad_opcode() { return Packets().add({0, 0}); }

// ---- kinds of errors

TEST_F(Error, copy_from_unmapped_host_address_is_page_fault) {
    Card card;
    expect_reset(card, kDown, Packets().copy(kNowhereOnHost + 0x77, card.memory(), 64), kPageFault);
    const auto record = page_fault(card.fd);
    EXPECT_EQ(record.addr & ~uint64_t{0xFF}, kNowhereOnHost);
    EXPECT_GT(record.timestamp, 0);
}

TEST_F(Error, copy_to_unmapped_card_address_is_page_fault) {
    Card card;
    std::vector<unsigned char> host(4096);
    expect_reset(card, kDown, Packets().copy(card.map(host), kNowhereOnCard, 64), kPageFault);
    EXPECT_EQ(page_fault(card.fd).addr, kNowhereOnCard & ~uint64_t{0x3FFFFFF});
}

TEST_F(Error, fill_of_unmapped_address_is_page_fault) {
    Card card;
    expect_reset(card, kOnCard, Packets().fill(0, kNowhereOnCard, 4), kPageFault);
    EXPECT_EQ(page_fault(card.fd).addr, kNowhereOnCard & ~uint64_t{0x3FFFFFF});
}

TEST_F(Error, message_to_unmapped_address_is_page_fault) {
    Card card;
    expect_reset(card, kDown, Packets().message(kNowhereOnHost, 1), kPageFault);
    EXPECT_EQ(page_fault(card.fd).addr, kNowhereOnHost);
}

TEST_F(Error, monitor_payload_to_unmapped_address_is_page_fault) {
    Card card;
    expect_reset(card, kDown, Packets().monitor(kMonitor, kObject, 1, kNowhereOnHost, 1).set_object(kObject, 1),
                 kPageFault);
    EXPECT_EQ(page_fault(card.fd).addr, kNowhereOnHost);
}

TEST_F(Error, copy_past_the_end_of_its_mapping_is_page_fault) {
    Card card;
    const uint64_t device = card.memory();
    std::vector<unsigned char> host(4096, 1);
    expect_reset(card, kDown, Packets().copy(card.map(host), device + kPage - 2048, 4096), kPageFault);
    EXPECT_EQ(page_fault(card.fd).addr, (device + kPage) & ~uint64_t{0x3FFFFFF});
}

TEST_F(Error, unmap_before_the_copy_runs_is_page_fault) {
    Card card;
    std::vector<unsigned char> host(4096);
    const uint64_t device = card.memory();
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, device), 0);
    expect_reset(card, kDown, Packets().copy(card.map(host), device, 4096), kPageFault);
    EXPECT_EQ(page_fault(card.fd).addr, device & ~uint64_t{0x3FFFFFF});
}

TEST_F(Error, unmapped_command_buffer_is_page_fault) {
    for (const uint64_t address : {kNowhereOnHost, kNowhereOnCard, uint64_t{0}, kCfg}) {
        Card card;
        const Notifier notifier(card);
        std::array chunks = {Card::chunk(kDown, address, 64)};
        uint64_t seq = 0;
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
        EXPECT_EQ(card.wait(seq), -EIO);
        EXPECT_EQ(notifier.receive(), kPageFault);
    }
}

TEST_F(Error, unmapped_nested_command_buffer_is_page_fault) {
    Card card;
    expect_reset(card, kDown, Packets().nested(kNowhereOnHost, 64), kPageFault);
    EXPECT_EQ(page_fault(card.fd).addr, kNowhereOnHost);
}

TEST_F(Error, undefined_opcode_is_recorded_with_its_address) {
    Card card;
    const auto packets = Packets().nop().add({0x1234, 0x1F000000});
    const uint64_t buffer = card.place(packets);
    const Notifier notifier(card);
    std::array chunks = {Card::chunk(5, buffer, packets.size())};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), -EIO);
    EXPECT_EQ(notifier.receive(), kUndefinedOpcode);
    hlthunk_event_record_undefined_opcode record{};
    ASSERT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_UNDEFINED_OPCODE, &record), 0);
    EXPECT_GT(record.timestamp, 0);
    EXPECT_EQ(record.cq_addr, buffer + 8);
    EXPECT_EQ(record.cq_size, packets.size());
    EXPECT_EQ(record.stream_id, 1u);
    EXPECT_EQ(record.cb_addr_streams_len, 1u);
    EXPECT_EQ(record.cb_addr_streams[1][0], buffer);
}

TEST_F(Error, every_undefined_opcode_is_an_error) {
    for (const uint32_t opcode : {0u, 6u, 0x10u, 0x11u, 0x12u, 0x13u, 0x14u, 0x1Fu}) {
        Card card;
        const Notifier notifier(card);
        EXPECT_EQ(card.wait(card.submit(kDown, Packets().add({0, opcode << 24, 0, 0, 0, 0}))), -EIO) << opcode;
        EXPECT_EQ(notifier.receive(), kUndefinedOpcode) << opcode;
    }
}

TEST_F(Error, truncated_packet_is_an_error) {
    for (const uint32_t size : {4u, 12u, 20u, 23u}) { // the copy has 24 bytes
        Card card;
        const Notifier notifier(card);
        const auto packets = Packets().copy(kSram, kSram + 64, 4);
        std::array chunks = {Card::chunk(kDown, card.place(packets), size)};
        uint64_t seq = 0;
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
        EXPECT_EQ(card.wait(seq), -EIO) << size;
        EXPECT_EQ(notifier.receive(), kUndefinedOpcode) << size;
    }
}

TEST_F(Error, copy_with_conversion_is_an_error) {
    for (const uint32_t bit : {6u, 7u, 9u}) {
        Card card;
        EXPECT_EQ(card.wait(card.submit(kDown,
                                        Packets().add({4, 0x09000000 | 1u << bit}).address(kSram).address(kSram + 64))),
                  -EIO);
    }
}

TEST_F(Error, store_to_protected_register_is_an_error) {
    constexpr uint64_t kProtected = kCfg + 0x123400;
    Card card;
    expect_reset(card, kDown, Packets().message(kProtected, 1), kIllegalAccess);
    hlthunk_event_record_razwi_event record{};
    ASSERT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_RAZWI_EVENT, &record), 0);
    EXPECT_GT(record.timestamp, 0);
    EXPECT_EQ(record.addr & ~uint64_t{0xFF}, kProtected);
    EXPECT_EQ(record.num_of_possible_engines, 1u);
    EXPECT_NE(record.flags & HL_RAZWI_WRITE, 0);
    EXPECT_EQ(record.flags & HL_RAZWI_READ, 0);
}

TEST_F(Error, copy_from_registers_is_an_error) {
    Card card;
    expect_reset(card, kDown, Packets().copy(kSyncObjects, kSram, 4), kIllegalAccess);
    hlthunk_event_record_razwi_event record{};
    ASSERT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_RAZWI_EVENT, &record), 0);
    EXPECT_NE(record.flags & HL_RAZWI_READ, 0);
}

TEST_F(Error, self_calling_buffer_is_an_error) {
    Card card;
    std::vector<uint32_t> buffer(4);
    const uint64_t at = card.map(buffer);
    const auto packets = Packets().nested(at, 16, true);
    std::memcpy(buffer.data(), packets.data(), packets.size());
    std::array chunks = {Card::chunk(kDown, at, 16)};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), -EIO);
}

TEST_F(Error, endless_monitor_chain_is_an_error) {
    Card card;
    Packets packets; // two monitors that trigger each other look like endless work
    packets.monitor(kMonitor, kObject, 0, kSyncObjects + 4 * kObject, 1);
    for (uint32_t i = 0; i < 2; ++i)
        packets.monitor(kMonitor + 8 + i, kObject, i, kCfg + 0x410E000 + 4 * (kMonitor + 8 + i),
                        (kObject / 8 & 0xFF) | 0xFEu << 8 | 1u << 16 | i << 17);
    const uint64_t seq = card.submit(kDown, packets);
    uint32_t status = 0;
    EXPECT_EQ(card.wait(seq, &status), -EIO);
}

// ---- host memory that is not pinned, and that the program unmaps

TEST_F(Error, unpinned_host_memory_that_is_unmapped_is_page_fault) {
    leave_unpinned();
    for (int use = 0; use < 6; ++use) {
        Card card;
        const Notifier notifier(card);
        card.run(kDown, Packets().nop()); // the queue's thread exists now, so nothing maps memory at the freed address
        void *memory = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        const uint64_t at = card.map(memory, kMiB), device = card.memory();
        Packets packets;
        switch (use) {
        case 0:
            packets.copy(at, device, kMiB);
            break;
        case 1:
            packets.copy(device, at, kMiB);
            break;
        case 2:
            packets.copy(at, kSram, kMiB);
            break;
        case 3:
            packets.copy(kSram, at, kMiB);
            break;
        case 4:
            packets.message(at, 1);
            break;
        default:
            packets.nested(at, 64);
            break;
        }
        std::array chunks = {Card::chunk(kDown, card.place(packets), packets.size())};
        munmap(memory, kMiB);
        uint64_t seq = 0;
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
        EXPECT_EQ(card.wait(seq), -EIO) << use;
        EXPECT_EQ(notifier.receive(), kPageFault) << use;
        EXPECT_EQ(page_fault(card.fd).addr, at) << use;
    }
}

TEST_F(Error, unpinned_host_memory_that_is_inaccessible_is_page_fault) {
    leave_unpinned();
    for (const int rights : {PROT_NONE, PROT_READ}) {
        Card card;
        void *memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        const uint64_t at = card.map(memory, 4096);
        ASSERT_EQ(mprotect(memory, 4096, rights), 0);
        EXPECT_EQ(card.wait(card.submit(kDown, Packets().message(at, 1))), -EIO);
        EXPECT_EQ(page_fault(card.fd).addr, at);
        munmap(memory, 4096);
    }
}

class ErrorPinned : public Error, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(each, ErrorPinned, ::testing::Bool());

TEST_P(ErrorPinned, host_memory_unmapped_during_a_copy_does_not_crash) {
    const bool pinned = GetParam();
    if (!pinned)
        leave_unpinned();
    constexpr uint64_t kSize = 4 * kMiB;
    constexpr uint32_t kPiece = 32 * 1024;
    for (unsigned round = 0; round < 20; ++round) {
        Card card;
        void *memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        const uint64_t at = card.map(memory, kSize), device = card.memory();
        Packets packets;
        for (uint64_t done = 0; done < kSize; done += kPiece) {
            switch (round % 4) {
            case 0:
                packets.copy(at + done, kSram, kPiece);
                break;
            case 1:
                packets.copy(kSram, at + done, kPiece);
                break;
            case 2:
                packets.copy(at + done, device, kPiece);
                break;
            default:
                packets.copy(device, at + done, kPiece);
                break;
            }
        }
        const uint64_t seq = card.submit(kDown, packets);
        uint32_t status = 0;
        EXPECT_EQ(card.wait(seq, &status, round * 20), 0); // a different moment each round
        munmap(memory, kSize);
        const int result = card.wait(seq, &status);
        EXPECT_TRUE(result == 0 || (!pinned && result == -EIO)) << result; // it may have completed before
    }
}

// ---- the notifier

TEST_F(Error, notifier_descriptor_becomes_readable) {
    Card card;
    const Notifier notifier(card);
    pollfd ready{notifier.handle, POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 0), 0);
    const int set = epoll_create1(EPOLL_CLOEXEC);
    ASSERT_GE(set, 0);
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, notifier.handle, &event), 0);
    const uint64_t seq = card.submit(kDown, bad_opcode());
    EXPECT_EQ(epoll_wait(set, &event, 1, -1), 1);
    EXPECT_EQ(poll(&ready, 1, 0), 1);
    EXPECT_EQ(card.wait(seq), -EIO);
    EXPECT_EQ(notifier.receive(0), kUndefinedOpcode);
    EXPECT_EQ(poll(&ready, 1, 0), 0);
    close(set);
}

TEST_F(Error, notifier_without_events_times_out_and_keeps_the_mask) {
    Card card;
    const Notifier notifier(card);
    uint64_t events = 55, count = 66;
    EXPECT_EQ(hlthunk_notifier_recv(card.fd, notifier.handle, &events, &count, 0, 0), 0);
    EXPECT_EQ(events, 55u);
    EXPECT_EQ(count, 0u);
}

TEST_F(Error, error_wakes_a_thread_in_notifier_recv) {
    Card card;
    const Notifier notifier(card);
    std::atomic<pid_t> id = 0;
    uint64_t events = 0;
    std::thread waiter([&] {
        id = gettid();
        events = notifier.receive();
    });
    wait_until_asleep(id);
    EXPECT_EQ(card.wait(card.submit(kDown, bad_opcode())), -EIO);
    waiter.join();
    EXPECT_EQ(events, kUndefinedOpcode);
}

TEST_F(Error, wrong_notifier_arguments_are_refused) {
    Card card;
    uint64_t events = 0, count = 0;
    EXPECT_EQ(hlthunk_notifier_release(card.fd, 0), -EINVAL); // no notifier exists
    {
        const Notifier notifier(card);
        EXPECT_EQ(hlthunk_notifier_create(card.fd), -EINVAL); // one per context
        EXPECT_EQ(hlthunk_notifier_recv(card.fd, notifier.handle, nullptr, &count, 0, 0), -EINVAL);
        EXPECT_EQ(hlthunk_notifier_recv(card.fd, notifier.handle, &events, nullptr, 0, 0), -EINVAL);
        const int control = hlthunk_open_control(0, nullptr);
        EXPECT_EQ(hlthunk_notifier_create(control), -EOPNOTSUPP);
        EXPECT_EQ(hlthunk_notifier_recv(control, notifier.handle, &events, &count, 0, 0), -EOPNOTSUPP);
        EXPECT_EQ(hlthunk_notifier_release(control, notifier.handle), -EOPNOTSUPP);
        EXPECT_EQ(hlthunk_close(control), 0);
    }
    const Notifier again(card); // allowed after a release
    EXPECT_EQ(card.wait(card.submit(kDown, bad_opcode())), -EIO);
}

TEST_F(Error, error_without_notifier_is_recorded) {
    Card card;
    EXPECT_EQ(card.wait(card.submit(kDown, bad_opcode())), -EIO);
    hlthunk_event_record_undefined_opcode record{};
    ASSERT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_UNDEFINED_OPCODE, &record), 0);
    EXPECT_GT(record.timestamp, 0);
    EXPECT_EQ(hlthunk_notifier_create(card.fd), -EBUSY);
}

// ---- after the error

TEST_F(Error, error_aborts_all_submissions_of_the_card) {
    Card card;
    std::vector<uint64_t> held;
    for (const uint32_t queue : {kUp, kUp + 1, kOnCard, 20u})
        held.push_back(card.submit(queue, Packets().fence()));
    held.push_back(card.submit(kUp, Packets().nop())); // queued behind the first
    expect_reset(card, kDown, bad_opcode(), kUndefinedOpcode);
    for (const uint64_t seq : held) {
        uint32_t status = 0;
        EXPECT_EQ(card.wait(seq, &status), -EIO);
        EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_ABORTED});
    }
}

TEST_F(Error, error_wakes_threads_in_wait_for_cs) {
    Card card;
    const uint64_t held = card.submit(kUp, Packets().fence());
    std::atomic<pid_t> id = 0;
    int result = 0;
    std::thread waiter([&] {
        id = gettid();
        result = card.wait(held);
    });
    wait_until_asleep(id);
    EXPECT_EQ(card.wait(card.submit(kDown, bad_opcode())), -EIO);
    waiter.join();
    EXPECT_EQ(result, -EIO);
}

TEST_F(Error, card_in_reset_serves_information_only) {
    Card card;
    const uint64_t handle = hlthunk_device_memory_alloc(card.fd, 1, 0, false, false);
    const uint64_t device = card.memory();
    std::vector<unsigned char> host(4096);
    const uint64_t mapped = card.map(host);
    uint64_t buffer = 0, scratch = 0;
    ASSERT_EQ(hlthunk_request_mapped_command_buffer(card.fd, 4096, &buffer), 0);
    expect_reset(card, kDown, bad_opcode(), kUndefinedOpcode);

    const auto none = [](uint64_t result) { return result == 0 && errno == EBUSY; };
    EXPECT_TRUE(none(hlthunk_device_memory_alloc(card.fd, 1, 0, false, false)));
    EXPECT_TRUE(none(hlthunk_device_memory_map(card.fd, handle, 0)));
    EXPECT_TRUE(none(hlthunk_host_memory_map(card.fd, host.data(), 0, 4096)));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, mapped), -EBUSY);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), -EBUSY);
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, device, 4096, 0, O_RDWR | O_CLOEXEC), -EBUSY);
    EXPECT_EQ(hlthunk_request_command_buffer(card.fd, 4096, &scratch), -EBUSY);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, buffer), -EBUSY);
    std::array chunks = {Card::chunk(kDown, mapped, 8)};
    errno = 0;
    EXPECT_EQ(card.try_submit(chunks, scratch), -EBUSY);
    EXPECT_EQ(errno, EBUSY);
    hlthunk_signal_in in{};
    hlthunk_signal_out out{};
    EXPECT_EQ(hlthunk_signal_submission(card.fd, &in, &out), -EBUSY);
    EXPECT_EQ(hlthunk_cs_flush_pci_hbw_writes(card.fd), -EBUSY);
    uint32_t status = 0, clock = 0;
    uint64_t word = 0;
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &word, 1, 257, 0, &status), -EBUSY);
    EXPECT_EQ(hlthunk_wait_for_interrupt_by_handle(card.fd, buffer, 0, 1, 257, 0, &status), -EBUSY);
    EXPECT_EQ(hlthunk_get_clk_rate(card.fd, &clock, &clock), -EBUSY); // needs a working card
    EXPECT_FALSE(hlthunk_is_device_idle(card.fd));

    hlthunk_hw_ip_info identity{};
    EXPECT_EQ(hlthunk_get_hw_ip_info(card.fd, &identity), 0);
    EXPECT_EQ(identity.device_id, uint32_t{HL_PCI_ID_GAUDI2});
    hlthunk_dram_usage_info usage{};
    EXPECT_EQ(hlthunk_get_dram_usage(card.fd, &usage), 0);
    hlthunk_open_stats_info stats{};
    EXPECT_EQ(hlthunk_get_open_stats(card.fd, &stats), 0);
    hl_info_cs_counters counters{};
    EXPECT_EQ(hlthunk_get_cs_counters_info(card.fd, &counters), 0);
    hlthunk_sync_manager_info sync{};
    EXPECT_EQ(hlthunk_get_sync_manager_info(card.fd, 0, &sync), 0);
}

TEST_F(Error, reset_shows_on_control_node_until_close) {
    const int control = hlthunk_open_control(0, nullptr);
    ASSERT_GE(control, 0);
    const uint32_t before = hard_resets(control);
    EXPECT_EQ(hlthunk_get_device_status_info(control), HL_DEVICE_STATUS_OPERATIONAL);
    {
        Card card("0000:19:00.0");
        expect_reset(card, kDown, bad_opcode(), kUndefinedOpcode);
        EXPECT_EQ(hlthunk_get_device_status_info(control), HL_DEVICE_STATUS_IN_RESET);
        const int copy = dup(card.fd);
        ASSERT_GE(copy, 0);
        EXPECT_EQ(hlthunk_close(copy), 0);
        EXPECT_EQ(hlthunk_get_device_status_info(control), HL_DEVICE_STATUS_IN_RESET); // not the last descriptor
    }
    EXPECT_EQ(hlthunk_get_device_status_info(control), HL_DEVICE_STATUS_OPERATIONAL);
    EXPECT_TRUE(hlthunk_is_device_idle(control));
    EXPECT_EQ(hard_resets(control), before + 1);
    EXPECT_EQ(hlthunk_close(control), 0);
}

TEST_F(Error, reopened_card_works_with_a_new_context) {
    for (int round = 0; round < 3; ++round) {
        Card card;
        EXPECT_EQ(hard_resets(card.fd), static_cast<uint32_t>(round));
        EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
        auto out = pattern(kMiB);
        std::vector<unsigned char> back(out.size());
        const uint64_t device = card.memory();
        card.run(kDown, Packets().copy(card.map(out), device, kMiB));
        card.run(kUp, Packets().copy(device, card.map(back), kMiB));
        EXPECT_EQ(out, back);
        expect_reset(card, kDown, bad_opcode(), kUndefinedOpcode);
    }
}

TEST_F(Error, error_leaves_other_cards_running) {
    Card other("0000:1a:00.0");
    Card card("0000:19:00.0");
    expect_reset(card, kDown, bad_opcode(), kUndefinedOpcode);
    EXPECT_EQ(hlthunk_get_device_status_info(other.fd), HL_DEVICE_STATUS_OPERATIONAL);
    EXPECT_EQ(hard_resets(other.fd), 0u);
    other.run(kDown, Packets().nop());
}

TEST_F(Error, errors_are_counted_as_hardware_events) {
    Card card;
    std::vector<uint32_t> before(1024), after(1024);
    ASSERT_EQ(hlthunk_get_hw_events_arr(card.fd, true, 4096, before.data()), 0);
    expect_reset(card, kDown, bad_opcode(), kUndefinedOpcode);
    ASSERT_EQ(hlthunk_get_hw_events_arr(card.fd, true, 4096, after.data()), 0);
    uint64_t grown = 0;
    for (size_t i = 0; i < after.size(); ++i)
        grown += after[i] - before[i];
    EXPECT_EQ(grown, 1u);
}

TEST_F(Error, second_error_of_a_context_is_not_recorded) {
    Card card;
    const auto opcode = bad_opcode(), fault = Packets().message(kNowhereOnHost, 1);
    std::vector<hl_cs_chunk> chunks;
    for (uint32_t queue = 0; queue < 8; ++queue) {
        const Packets &packets = queue % 2 == 0 ? opcode : fault;
        chunks.push_back(Card::chunk(queue, card.place(packets), packets.size()));
    }
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), -EIO);
    hlthunk_event_record_undefined_opcode undefined{};
    EXPECT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_UNDEFINED_OPCODE, &undefined), 0);
    EXPECT_NE(undefined.timestamp != 0, page_fault(card.fd).timestamp != 0); // exactly one of the two
    EXPECT_EQ(hard_resets(card.fd), 1u);
}

TEST_F(Error, error_of_the_next_context_is_recorded) {
    for (const uint64_t address : {kNowhereOnHost, kNowhereOnHost + 0x1000}) {
        Card card;
        expect_reset(card, kDown, Packets().message(address, 1), kPageFault);
        EXPECT_EQ(page_fault(card.fd).addr, address);
    }
    Card card;
    EXPECT_EQ(page_fault(card.fd).addr, kNowhereOnHost + 0x1000); // the last record outlives its context
}

TEST_F(Error, page_fault_record_lists_the_current_mappings) {
    Card card;
    std::vector<unsigned char> host(10000);
    const uint64_t mapped = card.map(host), device = card.memory(2 * kPage);
    expect_reset(card, kDown, Packets().message(kNowhereOnHost, 1), kPageFault);
    hlthunk_page_fault_info info{};
    errno = 0;
    EXPECT_EQ(hlthunk_get_page_fault_info(card.fd, &info, 0), -ENOMEM);
    ASSERT_GE(info.num_of_mappings, 2u); // these two and the command buffer
    std::vector<hlthunk_page_fault_mapping> mappings(info.num_of_mappings);
    info.mappings = mappings.data();
    ASSERT_EQ(hlthunk_get_page_fault_info(card.fd, &info, info.num_of_mappings), 0);
    bool found_host = false, found_device = false;
    for (const auto &mapping : mappings) {
        found_host = found_host || (mapping.dev_va == (mapped & ~uint64_t{4095}) && mapping.size >= host.size());
        found_device = found_device || (mapping.dev_va == device && mapping.size == 2 * kPage);
    }
    EXPECT_TRUE(found_host);
    EXPECT_TRUE(found_device);
}

// ---- closing

TEST_F(Error, close_stops_running_work) {
    constexpr uint32_t kSize = kMiB;
    std::vector<unsigned char> target(kSize);
    {
        Card card;
        const uint64_t device = card.memory(), to = card.map(target);
        Packets packets;
        for (int i = 0; i < 5000; ++i)
            packets.copy(device, to, kSize).message(to, 1);
        card.submit(kUp, packets);
        card.submit(kDown, Packets().fence());
    }
    std::fill(target.begin(), target.end(), 0xEE);
    {
        Card card; // running work would have written before this open
        auto out = pattern(kSize);
        card.run(kDown, Packets().copy(card.map(out), card.memory(), kSize));
    }
    EXPECT_EQ(target, std::vector<unsigned char>(kSize, 0xEE));
}

TEST_F(Error, close_counts_a_reset_only_with_running_work) {
    uint32_t before = 0;
    {
        Card card;
        before = hard_resets(card.fd);
        card.run(kDown, Packets().nop());
    }
    {
        Card card;
        EXPECT_EQ(hard_resets(card.fd), before);
        card.submit(kDown, Packets().fence());
    }
    Card card;
    EXPECT_EQ(hard_resets(card.fd), before + 1);
    card.run(kDown, Packets().nop());
}

TEST_F(Error, free_of_used_buffers_then_close_does_not_crash) {
    for (int round = 0; round < 5; ++round) {
        Card card;
        std::vector<unsigned char> data(4096);
        const uint64_t from = card.map(data), device = card.memory();
        Packets packets;
        for (uint32_t i = 0; i < 20000; ++i)
            packets.copy(from, device + i % 1000 * 4096, 4096);
        auto *buffer = static_cast<char *>(
            mmap(nullptr, packets.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ASSERT_NE(buffer, MAP_FAILED);
        std::memcpy(buffer, packets.data(), packets.size());
        const uint64_t commands = card.map(buffer, packets.size());
        std::array chunks = {Card::chunk(kDown, commands, packets.size())};
        uint64_t seq = 0;
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
        (void)hlthunk_memory_unmap(card.fd, commands); // fails with EBUSY when the work has failed already
        munmap(buffer, packets.size());
    }
}

} // namespace
