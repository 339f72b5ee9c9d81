// SPDX-License-Identifier: BSD-3-Clause
// SOFTGAUDI_FAULTS: each fault happens at the calls that its rule names, and at no other.
#include "pace.h"
#include "steps.h"

using namespace soft;

namespace {

constexpr const char *kFirst = "0000:19:00.0", *kSecond = "0000:1a:00.0";

class Fault : public SoftTest {};

/// Errno of an allocation; 0 on success.
int allocate(int fd) {
    errno = 0;
    return hlthunk_device_memory_alloc(fd, 1, 0, false, false) != 0 ? 0 : errno;
}

TEST_F(Fault, rule_with_number_fails_only_that_call) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#2=EXDEV");
    Card card;
    EXPECT_EQ(allocate(card.fd), 0);
    EXPECT_EQ(allocate(card.fd), EXDEV);
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(allocate(card.fd), 0);
}

TEST_F(Fault, rule_with_plus_fails_all_later_calls) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#3+=ENOMEM");
    Card card;
    EXPECT_EQ(allocate(card.fd), 0);
    EXPECT_EQ(allocate(card.fd), 0);
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(allocate(card.fd), ENOMEM);
}

TEST_F(Fault, rule_without_number_fails_every_call) {
    set("SOFTGAUDI_FAULTS", "hlthunk_device_memory_alloc=ENOMEM");
    Card card;
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(allocate(card.fd), ENOMEM);
}

TEST_F(Fault, failed_call_has_no_effect) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc=ENOMEM;command_submission=EIO");
    Card card;
    hlthunk_dram_usage_info before{}, after{};
    ASSERT_EQ(hlthunk_get_dram_usage(card.fd, &before), 0);
    EXPECT_EQ(allocate(card.fd), ENOMEM);
    ASSERT_EQ(hlthunk_get_dram_usage(card.fd, &after), 0);
    EXPECT_EQ(before.dram_free_mem, after.dram_free_mem);
    uint32_t word = 0;
    const uint64_t buffer = card.place(Packets().message(card.map(&word, sizeof word), 1));
    std::array chunks = {Card::chunk(kDown, buffer, 16)};
    uint64_t seq = 0;
    EXPECT_EQ(card.try_submit(chunks, seq), -EIO);
    uint32_t status = 99;
    EXPECT_EQ(card.wait(1, &status), -EINVAL) << "no number was given out";
    EXPECT_EQ(word, 0u);
}

TEST_F(Fault, every_function_fails_by_its_own_convention) {
    set("SOFTGAUDI_FAULTS", "device_memory_map=EL2HLT;host_memory_map=EL2HLT;memory_unmap=EL2HLT;is_device_idle=EL2HLT;"
                            "device_memory_export_dmabuf_fd=EL2HLT;wait_for_cs=EL2HLT;get_device_id_from_fd=EL2HLT;"
                            "get_device_name_from_fd=EL2HLT;get_device_status_info=EL2HLT;open_control=EL2HLT;"
                            "notifier_create=EL2HLT;get_device_count=EL2HLT");
    Card card;
    char byte = 0;
    uint32_t status = 0;
    const uint64_t handle = hlthunk_device_memory_alloc(card.fd, 1, 0, false, false);
    const auto sets_errno = [](auto call, auto result) {
        errno = 0;
        return call() == result && errno == EL2HLT;
    };
    EXPECT_TRUE(sets_errno([&] { return hlthunk_device_memory_map(card.fd, handle, 0); }, 0u));
    EXPECT_TRUE(sets_errno([&] { return hlthunk_host_memory_map(card.fd, &byte, 0, 1); }, 0u));
    EXPECT_TRUE(sets_errno([&] { return hlthunk_memory_unmap(card.fd, 1); }, -EL2HLT));
    EXPECT_TRUE(sets_errno([&] { return hlthunk_device_memory_export_dmabuf_fd(card.fd, 1, 1, 0); }, -EL2HLT));
    EXPECT_TRUE(sets_errno([&] { return hlthunk_wait_for_cs(card.fd, 1, 0, &status); }, -EL2HLT));
    EXPECT_TRUE(sets_errno([&] { return int{hlthunk_get_device_status_info(card.fd)}; }, -EL2HLT));
    EXPECT_TRUE(sets_errno([&] { return hlthunk_open_control(0, nullptr); }, -EL2HLT));
    EXPECT_TRUE(sets_errno([&] { return hlthunk_notifier_create(card.fd); }, -EL2HLT));
    EXPECT_TRUE(sets_errno([&] { return hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE); }, -EL2HLT));
    EXPECT_FALSE(hlthunk_is_device_idle(card.fd));
    EXPECT_EQ(hlthunk_get_device_id_from_fd(card.fd), 0u);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(card.fd), HLTHUNK_DEVICE_INVALID);
}

TEST_F(Fault, rule_with_card_fails_that_card_only) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc@2=ENOMEM");
    Card first(kFirst), second(kSecond);
    EXPECT_EQ(allocate(first.fd), 0);
    EXPECT_EQ(allocate(second.fd), ENOMEM);
}

TEST_F(Fault, rule_with_card_counts_calls_of_that_card_only) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc@2#2=ENOMEM");
    Card first(kFirst), second(kSecond);
    EXPECT_EQ(allocate(second.fd), 0);
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(allocate(first.fd), 0);
    EXPECT_EQ(allocate(second.fd), ENOMEM);
}

TEST_F(Fault, rule_without_card_counts_calls_of_all_cards) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#2=ENOMEM");
    Card first(kFirst), second(kSecond);
    EXPECT_EQ(allocate(second.fd), 0);
    EXPECT_EQ(allocate(first.fd), ENOMEM);
}

TEST_F(Fault, failed_open_continues_with_the_next_card) {
    set("SOFTGAUDI_FAULTS", "open@3=EAGAIN");
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, kFirst), -EAGAIN);
    Card card;
    std::array<char, 13> name{};
    EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(card.fd, name.data(), 13), 0);
    EXPECT_STREQ(name.data(), kSecond);
}

TEST_F(Fault, failed_opens_of_all_cards_return_the_errno) {
    set("SOFTGAUDI_FAULTS", "open=EAGAIN");
    errno = 0;
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Fault, asterisk_matches_every_function) {
    set("SOFTGAUDI_FAULTS", "*#3=EOVERFLOW");
    Card card;                       // call 1: open
    EXPECT_EQ(allocate(card.fd), 0); // call 2
    hlthunk_hw_ip_info info{};
    EXPECT_EQ(hlthunk_get_hw_ip_info(card.fd, &info), -EOVERFLOW);
    EXPECT_EQ(hlthunk_get_hw_ip_info(card.fd, &info), 0);
}

TEST_F(Fault, several_rules_apply_together) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#1=ENOMEM;device_memory_alloc#3=EIO;device_memory_free=EPERM");
    Card card;
    EXPECT_EQ(allocate(card.fd), ENOMEM);
    EXPECT_EQ(allocate(card.fd), 0);
    EXPECT_EQ(allocate(card.fd), EIO);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, 1), -EPERM);
}

TEST_F(Fault, failed_close_closes_the_descriptor) {
    set("SOFTGAUDI_FAULTS", "close#1=EIO");
    const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, kFirst);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(hlthunk_close(fd), -EIO);
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
    Card again(kFirst);
    EXPECT_EQ(allocate(again.fd), 0);
}

TEST_F(Fault, delay_advances_the_virtual_clock) {
    set("SOFTGAUDI_PACE", "virtual:");
    set("SOFTGAUDI_FAULTS", "device_memory_alloc#2=delay:250");
    Card card;
    const uint64_t start = now(card);
    EXPECT_EQ(allocate(card.fd), 0);
    EXPECT_EQ(now(card), start);
    EXPECT_EQ(allocate(card.fd), 0);
    EXPECT_EQ(now(card) - start, 250'000u);
}

TEST_F(Fault, delay_on_real_clock_is_at_least_its_length) {
    set("SOFTGAUDI_FAULTS", "device_memory_alloc=delay:20000");
    Card card;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(allocate(card.fd), 0);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

TEST_F(Fault, hanging_submission_times_out) {
    set("SOFTGAUDI_FAULTS", "command_submission_timeout#2=hang");
    Card card;
    const Notifier notifier(card);
    uint32_t word = 0, status = 99;
    const uint64_t address = card.map(&word, sizeof word);
    const uint64_t works = card.submit(kDown, Packets().message(address, 1), 0, 1);
    EXPECT_EQ(card.wait(works), 0);
    const uint64_t hangs = card.submit(kDown, Packets().message(address, 2), 0, 1);
    EXPECT_EQ(card.wait(hangs, &status), -ETIMEDOUT);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_TIMEDOUT});
    EXPECT_EQ(word, 1u);
    EXPECT_EQ(notifier.receive(), uint64_t{HL_NOTIFIER_EVENT_CS_TIMEOUT | HL_NOTIFIER_EVENT_DEVICE_RESET});
    EXPECT_EQ(allocate(card.fd), EBUSY);
}

TEST_F(Fault, skipping_submission_writes_its_flag_and_moves_nothing) {
    set("SOFTGAUDI_FAULTS", "command_submission_timeout#2=skip");
    Card card;
    uint32_t words[4] = {1, 2, 3, 0};
    const uint64_t address = card.map(words, sizeof words);
    const auto copy_word = [&](unsigned from, unsigned to, uint32_t value) {
        const uint64_t seq = card.submit(
            kDown, Packets().copy(address + 4 * from, address + 4 * to, 4).message(address + 12, value), 0, 1);
        EXPECT_EQ(card.wait(seq), 0);
        EXPECT_EQ(words[3], value);
    };
    copy_word(0, 1, 10);
    EXPECT_EQ(words[1], 1u);
    copy_word(2, 1, 11);
    EXPECT_EQ(words[1], 1u);
    copy_word(2, 1, 12);
    EXPECT_EQ(words[1], 3u);
}

TEST_F(Fault, hanging_submission_times_out_when_the_rule_says) {
    set("SOFTGAUDI_FAULTS", "command_submission#1=hang:10");
    Card card;
    uint32_t status = 0;
    EXPECT_EQ(card.wait(card.submit(kDown, Packets().nop()), &status), -ETIMEDOUT);
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_IN_RESET);
}

TEST_F(Fault, hanging_submission_in_null_pace_times_out) {
    set("SOFTGAUDI_PACE", "null");
    set("SOFTGAUDI_FAULTS", "command_submission_timeout=hang");
    Card card;
    uint32_t status = 99;
    const uint64_t hangs = card.submit(kDown, Packets().nop(), 0, 1);
    EXPECT_EQ(card.wait(hangs, &status, 0), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY});
    EXPECT_EQ(card.wait(hangs, &status), -ETIMEDOUT);
}

/// The errno of each kind of call on a card that was reset or lost; 0 for success.
struct Answers {
    int memory, submission, identity, status, working, notifier;
};

void expect_answers(int fd, const Answers &wanted) {
    std::array<char, 64> data{};
    uint64_t out = 0;
    uint32_t word = 0;
    hlthunk_hw_ip_info info{};
    hlthunk_open_stats_info stats{};
    hlthunk_reset_count_info resets{};
    hlthunk_power_info power{};
    hlthunk_time_sync_info time{};
    hlthunk_cs_out result{};
    std::array chunks = {Card::chunk(kDown, 0, 8)};
    hlthunk_cs_in work{};
    work.chunks_execute = chunks.data();
    work.num_chunks_execute = 1;
    const auto failed = [](int64_t value) { return value < 0 ? static_cast<int>(-value) : 0; };
    const auto failed_zero = [](uint64_t value) { return value == 0 ? errno : 0; };

    EXPECT_EQ(failed_zero(hlthunk_device_memory_alloc(fd, 1, 0, false, false)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_device_memory_free(fd, 1)), wanted.memory);
    EXPECT_EQ(failed_zero(hlthunk_device_memory_map(fd, 1, 0)), wanted.memory);
    EXPECT_EQ(failed_zero(hlthunk_host_memory_map(fd, data.data(), 0, 1)), wanted.memory);
    EXPECT_EQ(failed_zero(hlthunk_host_memory_map_flags(fd, data.data(), 0, 1, 0)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_memory_unmap(fd, 1)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_device_memory_export_dmabuf_fd(fd, 1, 4096, 0)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_device_mapped_memory_export_dmabuf_fd(fd, 1, 4096, 0, O_RDWR | O_CLOEXEC)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_request_command_buffer(fd, 64, &out)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_request_mapped_command_buffer(fd, 64, &out)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_destroy_command_buffer(fd, 1)), wanted.memory);
    EXPECT_EQ(failed(hlthunk_allocate_timestamp_elements(fd, 1, &out)), wanted.memory);

    EXPECT_EQ(failed(hlthunk_command_submission(fd, &work, &result)), wanted.submission);
    EXPECT_EQ(failed(hlthunk_command_submission_timeout(fd, &work, &result, 1)), wanted.submission);
    EXPECT_EQ(failed(hlthunk_wait_for_cs(fd, 1000, 0, &word)), wanted.submission);
    EXPECT_EQ(failed(hlthunk_cs_flush_pci_hbw_writes(fd)), wanted.submission);
    EXPECT_EQ(failed(hlthunk_wait_for_interrupt(fd, &out, 1, 257, 0, &word)), wanted.submission);

    EXPECT_EQ(failed(hlthunk_get_hw_ip_info(fd, &info)), wanted.identity);
    EXPECT_EQ(failed(hlthunk_get_open_stats(fd, &stats)), wanted.identity);
    EXPECT_EQ(failed(hlthunk_get_reset_count_info(fd, &resets)), wanted.identity);
    EXPECT_EQ(hlthunk_get_device_id_from_fd(fd), wanted.identity ? 0u : 0x1020u);
    EXPECT_EQ(hlthunk_get_device_status_info(fd), wanted.status);
    EXPECT_EQ(failed(hlthunk_get_power_info(fd, &power)), wanted.working);
    EXPECT_EQ(failed(hlthunk_get_time_sync_info(fd, &time)), wanted.working);
    EXPECT_FALSE(hlthunk_is_device_idle(fd));
    EXPECT_EQ(failed(hlthunk_notifier_create(fd)), wanted.notifier);
}

TEST_F(Fault, reset_aborts_submissions_and_leaves_information_only) {
    set("SOFTGAUDI_FAULTS", "get_clk_rate#2=reset");
    Card card(kFirst);
    const Notifier notifier(card);
    const uint64_t parked = card.submit(kDown, Packets().fence());
    uint32_t current = 0, most = 0, status = 99;
    EXPECT_EQ(hlthunk_get_clk_rate(card.fd, &current, &most), 0);
    EXPECT_EQ(card.wait(parked, &status, 0), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY});
    EXPECT_EQ(hlthunk_get_clk_rate(card.fd, &current, &most), -EBUSY);
    EXPECT_EQ(card.wait(parked, &status), -EIO);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_ABORTED});
    EXPECT_EQ(notifier.receive(), uint64_t{HL_NOTIFIER_EVENT_GENERAL_HW_ERR | HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE |
                                           HL_NOTIFIER_EVENT_DEVICE_RESET});
    EXPECT_EQ(hard_resets(card.fd), 1u);
    expect_answers(card.fd, {.memory = EBUSY,
                             .submission = EBUSY,
                             .identity = 0,
                             .status = HL_DEVICE_STATUS_IN_RESET,
                             .working = EBUSY,
                             .notifier = EBUSY});
}

TEST_F(Fault, card_after_reset_can_be_reopened) {
    set("SOFTGAUDI_FAULTS", "get_power_info#1=reset");
    {
        Card card(kFirst);
        hlthunk_power_info power{};
        EXPECT_EQ(hlthunk_get_power_info(card.fd, &power), -EBUSY);
    }
    Card card(kFirst);
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
    card.run(kOnCard, Packets().fill(1, card.memory(), 100));
}

TEST_F(Fault, lost_card_refuses_every_call) {
    set("SOFTGAUDI_FAULTS", "get_clk_rate@3=lose");
    Card card(kFirst);
    const int control = hlthunk_open_control(0, nullptr);
    const Notifier notifier(card);
    const uint64_t parked = card.submit(kDown, Packets().fence());
    uint32_t current = 0, most = 0;
    EXPECT_EQ(hlthunk_get_clk_rate(control, &current, &most), -ENODEV);
    EXPECT_EQ(card.wait(parked), -ENODEV);
    EXPECT_EQ(notifier.receive(), uint64_t{HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE});
    const Answers gone{.memory = ENODEV,
                       .submission = ENODEV,
                       .identity = ENODEV,
                       .status = -ENODEV,
                       .working = ENODEV,
                       .notifier = ENODEV};
    expect_answers(card.fd, gone);
    hlthunk_hw_ip_info info{};
    EXPECT_EQ(hlthunk_get_hw_ip_info(control, &info), -ENODEV);
    EXPECT_EQ(hlthunk_close(control), 0);
}

TEST_F(Fault, lost_card_cannot_be_opened_but_others_can) {
    set("SOFTGAUDI_FAULTS", "get_power_info@3=lose");
    {
        Card card(kFirst);
        hlthunk_power_info power{};
        EXPECT_EQ(hlthunk_get_power_info(card.fd, &power), -ENODEV);
    }
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, kFirst), -ENODEV);
    EXPECT_EQ(hlthunk_open_control(0, nullptr), -ENODEV);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 7);
    Card next;
    std::array<char, 13> name{};
    EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(next.fd, name.data(), 13), 0);
    EXPECT_STREQ(name.data(), kSecond);
    next.run(kOnCard, Packets().fill(1, next.memory(), 100));
}

TEST_F(Fault, losing_a_card_wakes_waiting_threads) {
    set("SOFTGAUDI_FAULTS", "get_power_info=lose");
    Card card;
    const uint64_t parked = card.submit(kDown, Packets().fence());
    std::thread waiter([&] { EXPECT_EQ(card.wait(parked), -ENODEV); });
    hlthunk_power_info power{};
    EXPECT_EQ(hlthunk_get_power_info(card.fd, &power), -ENODEV);
    waiter.join();
}

} // namespace
