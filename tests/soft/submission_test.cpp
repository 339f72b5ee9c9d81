// SPDX-License-Identifier: BSD-3-Clause
// Submissions: numbers, the submission window, refusals, and waits.
#include "steps.h"

using namespace soft;

namespace {

class Submission : public SoftTest {};

constexpr uint32_t kCompleted = HL_WAIT_CS_STATUS_COMPLETED, kBusy = HL_WAIT_CS_STATUS_BUSY,
                   kTimedOut = HL_WAIT_CS_STATUS_TIMEDOUT, kAborted = HL_WAIT_CS_STATUS_ABORTED;

uint32_t status_of(Card &card, uint64_t seq, uint64_t timeout_us = 0) {
    uint32_t status = 99;
    EXPECT_EQ(card.wait(seq, &status, timeout_us), 0) << strerror(errno);
    return status;
}

/// The errno of a wait that fails; return value and errno must agree.
int failure_of(Card &card, uint64_t seq, uint32_t *status = nullptr) {
    errno = 0;
    const int result = card.wait(seq, status);
    EXPECT_LT(result, 0);
    EXPECT_EQ(errno, -result);
    return errno;
}

hl_info_cs_counters counters(Card &card) {
    hl_info_cs_counters info{};
    EXPECT_EQ(hlthunk_get_cs_counters_info(card.fd, &info), 0);
    return info;
}

/// One submission with raw arguments.
int submit_raw(int fd, hl_cs_chunk *chunks, uint32_t count, uint32_t flags = 0, hlthunk_cs_out *out = nullptr) {
    hlthunk_cs_in in{};
    in.chunks_execute = chunks;
    in.num_chunks_execute = count;
    in.flags = flags;
    hlthunk_cs_out ignored{};
    errno = 0;
    const int result = hlthunk_command_submission(fd, &in, out ? out : &ignored);
    if (result != 0) {
        EXPECT_EQ(errno, -result);
    }
    return result;
}

// ---- numbers

TEST_F(Submission, sequence_numbers_start_at_one_and_grow_by_one) {
    for (int open = 0; open < 2; ++open) { // numbers start again with every open
        Card card;
        for (uint64_t expected = 1; expected <= 150; ++expected)
            ASSERT_EQ(card.submit(expected % 8, Packets().nop()), expected);
    }
}

TEST_F(Submission, chunks_of_one_submission_run_on_their_own_queues) {
    Card card;
    constexpr uint32_t kSize = 5000;
    auto out = pattern(8 * kSize);
    std::vector<unsigned char> back(out.size());
    const uint64_t from = card.map(out), device = card.memory();
    std::vector<hl_cs_chunk> chunks;
    for (uint32_t queue = 0; queue < 8; ++queue) {
        const auto packets = Packets().copy(from + queue * kSize, device + queue * kSize, kSize);
        chunks.push_back(Card::chunk(queue, card.place(packets), packets.size()));
    }
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(seq, 1u);
    EXPECT_EQ(card.wait(seq), 0);
    card.run(kUp, Packets().copy(device, card.map(back), static_cast<uint32_t>(back.size())));
    EXPECT_EQ(out, back);
}

TEST_F(Submission, completion_waits_for_all_chunks) {
    Card card;
    const auto held = Packets().fence(), nop = Packets().nop();
    std::array chunks = {Card::chunk(kUp, card.place(nop), nop.size()),
                         Card::chunk(kDown, card.place(held), held.size()),
                         Card::chunk(kOnCard, card.place(nop), nop.size())};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(status_of(card, seq, 1000), kBusy);
    card.run(kUp, opening(kDown));
    EXPECT_EQ(status_of(card, seq, kForever), kCompleted);
}

TEST_F(Submission, more_than_512_chunks_are_refused) {
    Card card;
    std::vector<uint32_t> count(1);
    const auto packets = Packets().add_object(kObject, 1);
    std::vector<hl_cs_chunk> chunks(512, Card::chunk(kDown, card.place(packets), packets.size()));
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), 0);
    card.run(kDown, Packets().monitor(kMonitor, kObject, 512, card.map(count), 1));
    EXPECT_EQ(count[0], 1u);
}

// ---- refusals

TEST_F(Submission, wrong_arguments_are_refused) {
    Card card;
    const auto packets = Packets().nop();
    const hl_cs_chunk good = Card::chunk(kDown, card.place(packets), packets.size());
    std::vector<hl_cs_chunk> chunks(513, good);
    EXPECT_EQ(submit_raw(card.fd, chunks.data(), 0), -EINVAL);
    EXPECT_EQ(submit_raw(card.fd, chunks.data(), 513), -EINVAL);
    EXPECT_EQ(submit_raw(card.fd, nullptr, 1), -EFAULT);
    hlthunk_cs_in in{};
    hlthunk_cs_out out{};
    EXPECT_EQ(hlthunk_command_submission(card.fd, nullptr, &out), -EINVAL);
    EXPECT_EQ(hlthunk_command_submission(card.fd, &in, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_command_submission_timeout(card.fd, nullptr, &out, 1), -EINVAL);
    EXPECT_EQ(submit_raw(-1, chunks.data(), 1), -EBADF);
}

TEST_F(Submission, unknown_and_driver_queues_are_refused) {
    Card card;
    const auto packets = Packets().nop();
    for (const uint32_t queue : {260u, 261u, 1000u, UINT32_MAX}) {
        hl_cs_chunk chunk = Card::chunk(queue, card.place(packets), packets.size());
        EXPECT_EQ(submit_raw(card.fd, &chunk, 1), -EINVAL) << queue;
    }
    EXPECT_EQ(counters(card).ctx_validation_drop_cnt, 4u);
    EXPECT_EQ(counters(card).total_validation_drop_cnt, 4u);
}

TEST_F(Submission, driver_owned_command_buffers_are_refused) {
    Card card;
    uint64_t handle = 0;
    ASSERT_EQ(hlthunk_request_command_buffer(card.fd, 4096, &handle), 0);
    for (const uint32_t queue : {kDown, kUp, kOnCard, 20u, 252u}) {
        hl_cs_chunk chunk = Card::chunk(queue, handle, 8);
        chunk.cs_chunk_flags = 0;
        EXPECT_EQ(submit_raw(card.fd, &chunk, 1), -EINVAL) << queue;
    }
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, handle), 0);
}

TEST_F(Submission, one_wrong_chunk_refuses_all_chunks) {
    Card card;
    std::vector<uint32_t> word(1);
    const auto packets = Packets().message(card.map(word), 1);
    std::array chunks = {Card::chunk(kDown, card.place(packets), packets.size()),
                         Card::chunk(261, card.place(packets), packets.size())};
    EXPECT_EQ(submit_raw(card.fd, chunks.data(), 2), -EINVAL);
    card.run(kDown, Packets().nop());
    EXPECT_EQ(word[0], 0u);
}

TEST_F(Submission, refusal_uses_a_number_and_keeps_the_result) {
    Card card;
    EXPECT_EQ(card.submit(kDown, Packets().nop()), 1u);
    hl_cs_chunk chunk = Card::chunk(261, 0, 0);
    hlthunk_cs_out out{77, 88, 99};
    EXPECT_EQ(submit_raw(card.fd, &chunk, 1, 0, &out), -EINVAL);
    EXPECT_EQ(out.seq, 77u);
    EXPECT_EQ(out.status, 88u);
    EXPECT_EQ(card.submit(kDown, Packets().nop()), 3u);
}

TEST_F(Submission, staged_submission_is_not_permitted) {
    Card card;
    const auto packets = Packets().nop();
    hl_cs_chunk chunk = Card::chunk(kDown, card.place(packets), packets.size());
    hlthunk_cs_in in{};
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    hlthunk_cs_out out{};
    EXPECT_EQ(hlthunk_staged_command_submission(card.fd, 0, &in, &out), -EPERM);
    EXPECT_EQ(hlthunk_staged_command_submission_timeout(card.fd, 0, &in, &out, 5), -EPERM);
    EXPECT_EQ(hlthunk_staged_command_submission_encaps_signals(card.fd, 0, &in, &out), -EPERM);
    for (const uint32_t flags : {0x40u, 0x40u | 0x80u, 0x40u | 0x100u})
        EXPECT_EQ(submit_raw(card.fd, &chunk, 1, flags), -EPERM);
}

TEST_F(Submission, flags_of_other_submission_kinds_are_refused) {
    Card card;
    const auto packets = Packets().nop();
    hl_cs_chunk chunk = Card::chunk(kDown, card.place(packets), packets.size());
    for (const uint32_t flags : {0x2u | 0x4u, 0x8u, 0x1000u | 0x2000u, 0x4000u | 0x10000u})
        EXPECT_EQ(submit_raw(card.fd, &chunk, 1, flags), -EINVAL) << flags;
}

TEST_F(Submission, wait_for_multi_cs_is_not_permitted) {
    Card card;
    uint64_t seq = card.submit(kDown, Packets().nop()), timestamp = 0;
    hlthunk_wait_multi_cs_in in{&seq, 1000, 1};
    hlthunk_wait_multi_cs_out out{};
    errno = 0;
    EXPECT_EQ(hlthunk_wait_for_multi_cs(card.fd, &in, &out), -EPERM);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(hlthunk_wait_for_multi_cs_with_timestamp(card.fd, &in, &out, &timestamp), -EPERM);
    EXPECT_EQ(hlthunk_wait_for_multi_cs(card.fd, nullptr, &out), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_multi_cs(card.fd, &in, nullptr), -EINVAL);
}

TEST_F(Submission, gaudi3_refuses_every_queue) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    Card card;
    const auto packets = Packets().nop();
    const uint64_t buffer = card.place(packets);
    for (const uint32_t queue : {0u, 4u, 8u, 260u}) {
        hl_cs_chunk chunk = Card::chunk(queue, buffer, packets.size());
        EXPECT_EQ(submit_raw(card.fd, &chunk, 1), -EINVAL) << queue;
    }
}

TEST_F(Submission, control_descriptor_is_refused) {
    Card card;
    const int control = hlthunk_open_control(0, nullptr);
    ASSERT_GE(control, 0);
    hl_cs_chunk chunk = Card::chunk(kDown, 0, 0);
    EXPECT_EQ(submit_raw(control, &chunk, 1), -ENOTTY);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(control, 0, 0, &status), -ENOTTY);
    EXPECT_EQ(hlthunk_close(control), 0);
}

// ---- the window, and full queues

TEST_F(Submission, full_window_delays_the_submission) {
    Card card;
    const Notifier notifier(card);
    const uint64_t oldest = card.submit(kDown, Packets().fence(), HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT, 3);
    uint64_t done = 0;
    for (int i = 0; i < 63; ++i)
        done = card.submit(kUp, Packets().nop());
    EXPECT_EQ(card.wait(done), 0);
    EXPECT_EQ(status_of(card, oldest), kBusy);
    EXPECT_EQ(counters(card).ctx_max_cs_in_flight_drop_cnt, 0u);
    // The 63 others are done: only the number counts. The call returns when the oldest submission has timed out.
    const uint64_t next = card.submit(kUp, Packets().nop());
    EXPECT_EQ(next, oldest + 64);
    EXPECT_EQ(notifier.receive(0), uint64_t{HL_NOTIFIER_EVENT_CS_TIMEOUT});
    EXPECT_GE(counters(card).ctx_max_cs_in_flight_drop_cnt, 1u);
    EXPECT_EQ(card.wait(next), 0);
}

TEST_F(Submission, more_than_the_window_complete_in_turn) {
    Card card;
    std::vector<uint32_t> count(1);
    const auto packets = Packets().add_object(kObject, 1);
    std::array chunks = {Card::chunk(kDown, card.place(packets), packets.size())};
    uint64_t seq = 0;
    for (int i = 0; i < 3000; ++i)
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(seq, 3000u);
    EXPECT_EQ(card.wait(seq), 0);
    card.run(kDown, Packets().monitor(kMonitor, kObject, 3000, card.map(count), 1));
    EXPECT_EQ(count[0], 1u);
}

TEST_F(Submission, full_queue_delays_and_is_counted) {
    Card card;
    const auto packets = Packets().nop();
    std::vector<hl_cs_chunk> chunks(256, Card::chunk(kDown, card.place(packets), packets.size()));
    const uint64_t held = card.submit(kDown, Packets().fence(), HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT, 3);
    uint64_t seq = 0;
    for (int i = 0; i < 15; ++i)
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(counters(card).ctx_queue_full_drop_cnt, 0u);
    EXPECT_EQ(status_of(card, held), kBusy);
    ASSERT_EQ(card.try_submit(chunks, seq), 0); // entry 4097
    EXPECT_GE(counters(card).ctx_queue_full_drop_cnt, 1u);
    EXPECT_GE(counters(card).total_queue_full_drop_cnt, 1u);
    EXPECT_EQ(counters(card).ctx_max_cs_in_flight_drop_cnt, 0u);
    EXPECT_EQ(failure_of(card, held), ETIMEDOUT);
    EXPECT_EQ(card.wait(seq), 0);
}

TEST_F(Submission, full_queue_does_not_delay_another) {
    Card card;
    const auto packets = Packets().nop();
    std::vector<hl_cs_chunk> chunks(256, Card::chunk(kDown, card.place(packets), packets.size()));
    const uint64_t held = card.submit(kDown, Packets().fence());
    uint64_t seq = 0;
    for (int i = 0; i < 15; ++i)
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
    card.run(kUp, opening(kDown));
    EXPECT_EQ(card.wait(held), 0);
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(counters(card).ctx_queue_full_drop_cnt, 0u);
}

// ---- restore, signals

TEST_F(Submission, forced_restore_chunks_run_first_with_their_own_number) {
    Card card;
    std::vector<uint32_t> word(1);
    const auto work = Packets().message(card.map(word), 0x42);
    const auto restore = Packets().copy(card.place(work), kSram, work.size());
    hl_cs_chunk first = Card::chunk(kDown, card.place(restore), restore.size());
    hl_cs_chunk second = Card::chunk(kOnCard, kSram, work.size());
    hlthunk_cs_in in{&first, &second, 1, 1, HL_CS_FLAGS_FORCE_RESTORE};
    hlthunk_cs_out out{};
    ASSERT_EQ(hlthunk_command_submission(card.fd, &in, &out), 0);
    EXPECT_EQ(out.seq, 2u);
    EXPECT_EQ(out.status, 0u);
    EXPECT_EQ(card.wait(out.seq), 0);
    EXPECT_EQ(word[0], 0x42u);
}

TEST_F(Submission, unforced_restore_chunks_are_skipped) {
    Card card;
    std::vector<uint32_t> words(2);
    const uint64_t at = card.map(words);
    const auto restore = Packets().message(at, 1), work = Packets().message(at + 4, 1);
    hl_cs_chunk first = Card::chunk(kDown, card.place(restore), restore.size());
    hl_cs_chunk second = Card::chunk(kDown, card.place(work), work.size());
    hlthunk_cs_in in{&first, &second, 1, 1, 0};
    hlthunk_cs_out out{};
    ASSERT_EQ(hlthunk_command_submission(card.fd, &in, &out), 0);
    EXPECT_EQ(out.seq, 1u);
    EXPECT_EQ(card.wait(out.seq), 0);
    EXPECT_EQ(words, (std::vector<uint32_t>{0, 1}));
}

class Signals : public SoftTest {
protected:
    static uint64_t signal(Card &card, uint32_t queue) {
        hlthunk_signal_in in{};
        in.queue_index = queue;
        hlthunk_signal_out out{};
        EXPECT_EQ(hlthunk_signal_submission(card.fd, &in, &out), 0);
        return out.seq;
    }
    static int wait(Card &card, uint32_t queue, uint64_t seq, hlthunk_wait_out &out, uint32_t count = 1) {
        hlthunk_wait_for_signal_data data{};
        data.signal_seq_arr = &seq;
        data.signal_seq_nr = count;
        data.queue_index = queue;
        hlthunk_wait_in in{};
        in.hlthunk_wait_for_signal = reinterpret_cast<uint64_t *>(&data);
        in.num_wait_for_signal = 1;
        return hlthunk_wait_for_signal(card.fd, &in, &out);
    }
};

TEST_F(Signals, queue_waits_for_the_signal_of_another) {
    Card card;
    std::vector<uint32_t> word(1);
    const uint64_t held = card.submit(kDown, Packets().fence());
    const uint64_t given = signal(card, kDown);
    EXPECT_EQ(given, held + 1);
    hlthunk_wait_out out{};
    ASSERT_EQ(wait(card, kUp, given, out), 0);
    EXPECT_EQ(out.seq, given + 1);
    const uint64_t after = card.submit(kUp, Packets().message(card.map(word), 1));
    EXPECT_EQ(status_of(card, after, 1000), kBusy);
    EXPECT_EQ(word[0], 0u);
    card.run(kOnCard, opening(kDown));
    EXPECT_EQ(card.wait(after), 0);
    EXPECT_EQ(word[0], 1u);
    EXPECT_EQ(card.wait(given), 0);
    EXPECT_EQ(card.wait(out.seq), 0);
}

TEST_F(Signals, wait_for_completed_signal_submits_nothing) {
    Card card;
    const uint64_t given = signal(card, kDown);
    EXPECT_EQ(card.wait(given), 0);
    hlthunk_wait_out out{};
    EXPECT_EQ(wait(card, kUp, given, out), 0);
    EXPECT_EQ(out.seq, UINT64_MAX);
    EXPECT_EQ(card.submit(kUp, Packets().nop()), given + 1); // the wait used no number
}

TEST_F(Signals, each_signal_returns_its_object_and_count) {
    Card card;
    hlthunk_signal_in in{};
    for (uint16_t i = 0; i < 3; ++i) {
        hlthunk_signal_out out{};
        ASSERT_EQ(hlthunk_signal_submission_timeout(card.fd, &in, &out, 5), 0);
        EXPECT_EQ(out.sob_count_before_submission, i);
        EXPECT_GE(out.sob_base_addr_offset, 0x4100000u);
        EXPECT_LT(out.sob_base_addr_offset, 0x4100000u + 4 * 413);
    }
}

TEST_F(Signals, wrong_arguments_are_refused) {
    Card card;
    const uint64_t plain = card.submit(kDown, Packets().fence());
    hlthunk_wait_out out{};
    EXPECT_EQ(wait(card, kUp, plain, out), -EINVAL);     // not a signal
    EXPECT_EQ(wait(card, kUp, plain + 1, out), -EINVAL); // not yet submitted
    EXPECT_EQ(wait(card, kUp, 0, out), -EINVAL);
    const uint64_t given = signal(card, kDown);
    EXPECT_EQ(wait(card, kUp, given, out, 2), -EINVAL);
    EXPECT_EQ(wait(card, 156, given, out), -EINVAL); // a network queue
    EXPECT_EQ(wait(card, 260, given, out), -EINVAL);
    hlthunk_signal_in in{};
    in.queue_index = 156;
    hlthunk_signal_out signalled{};
    EXPECT_EQ(hlthunk_signal_submission(card.fd, &in, &signalled), -EINVAL);
    EXPECT_EQ(hlthunk_signal_submission(card.fd, nullptr, &signalled), -EINVAL);
    EXPECT_EQ(hlthunk_signal_submission(card.fd, &in, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_signal(card.fd, nullptr, &out), -EINVAL);
    hlthunk_wait_in waits{};
    EXPECT_EQ(hlthunk_wait_for_collective_signal(card.fd, &waits, &out), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_collective_signal_timeout(card.fd, &waits, &out, 1), -EINVAL);
    card.run(kUp, opening(kDown));
    EXPECT_EQ(card.wait(plain), 0);
}

// ---- waiting

class WaitForCs : public SoftTest {};

TEST_F(WaitForCs, running_is_busy_and_finished_is_completed) {
    Card card;
    const uint64_t seq = card.submit(kDown, Packets().fence());
    EXPECT_EQ(status_of(card, seq, 0), kBusy);
    EXPECT_EQ(status_of(card, seq, 2000), kBusy);
    card.run(kUp, opening(kDown));
    EXPECT_EQ(status_of(card, seq, kForever), kCompleted);
    EXPECT_EQ(status_of(card, seq, 0), kCompleted); // again
}

TEST_F(WaitForCs, submission_out_of_the_window_is_completed) {
    Card card;
    uint64_t last = 0;
    for (int i = 0; i < 300; ++i)
        last = card.submit(kDown, Packets().nop());
    EXPECT_EQ(card.wait(last), 0);
    EXPECT_EQ(status_of(card, 1), kCompleted);
    EXPECT_EQ(status_of(card, last - 64), kCompleted);
    EXPECT_EQ(status_of(card, 0), kCompleted);
}

TEST_F(WaitForCs, unknown_number_is_refused) {
    Card card;
    EXPECT_EQ(failure_of(card, 1), EINVAL);
    const uint64_t seq = card.submit(kDown, Packets().nop());
    EXPECT_EQ(failure_of(card, seq + 1), EINVAL);
    EXPECT_EQ(failure_of(card, UINT64_MAX), EINVAL);
    EXPECT_EQ(card.wait(seq), 0);
}

TEST_F(WaitForCs, null_result_pointer_is_refused) {
    Card card;
    const uint64_t seq = card.submit(kDown, Packets().nop());
    uint32_t status = 0;
    uint64_t timestamp = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(card.fd, seq, 0, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, seq, 0, nullptr, &timestamp), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, seq, 0, &status, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_cs(-1, seq, 0, &status), -EBADF);
}

TEST_F(WaitForCs, reset_reports_only_aborted_submissions) {
    Card card;
    const uint64_t good = card.submit(kDown, Packets().nop());
    EXPECT_EQ(card.wait(good), 0);
    const uint64_t bad = card.submit(kDown, Packets().add({0, 0}));
    uint32_t status = 0;
    EXPECT_EQ(failure_of(card, bad, &status), EIO);
    EXPECT_EQ(status, kAborted);
    EXPECT_EQ(failure_of(card, bad, &status), EIO); // every time
    EXPECT_EQ(failure_of(card, good), EBUSY);
    EXPECT_EQ(failure_of(card, bad + 1), EBUSY);
    EXPECT_EQ(failure_of(card, 0), EBUSY);
}

TEST_F(WaitForCs, requested_timestamp_is_returned) {
    Card card;
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
    };
    const uint64_t begin = now();
    const uint64_t first = card.submit(kDown, Packets().nop(), kTimestampFlag);
    EXPECT_EQ(card.wait(first), 0);
    const uint64_t middle = now();
    const uint64_t second = card.submit(kDown, Packets().nop(), kTimestampFlag);
    const uint64_t plain = card.submit(kDown, Packets().nop());
    EXPECT_EQ(card.wait(plain), 0);
    const uint64_t end = now();
    uint32_t status = 9;
    uint64_t t1 = 0, t2 = 0, none = 123;
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, first, 0, &status, &t1), 0);
    EXPECT_EQ(status, kCompleted);
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, second, 0, &status, &t2), 0);
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, plain, 0, &status, &none), 0);
    EXPECT_LE(begin, t1);
    EXPECT_LE(t1, middle);
    EXPECT_LE(middle, t2);
    EXPECT_LE(t2, end);
    EXPECT_EQ(none, 123u); // unchanged
}

TEST_F(WaitForCs, timestamped_result_outlives_the_window) {
    Card card;
    const uint64_t ended = card.submit(kDown, Packets().nop(), kTimestampFlag);
    const uint64_t stuck = card.submit(kDown, Packets().fence(), kTimestampFlag | HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT, 1);
    const auto packets = Packets().nop();
    std::array chunks = {Card::chunk(kUp, card.place(packets), packets.size())};
    uint64_t last = 0;
    for (int i = 0; i < 5000; ++i)
        ASSERT_EQ(card.try_submit(chunks, last), 0);
    EXPECT_EQ(card.wait(last), 0);
    uint32_t status = 9;
    uint64_t timestamp = 0;
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, ended, 0, &status, &timestamp), 0);
    EXPECT_EQ(status, kCompleted);
    EXPECT_NE(timestamp, 0u);
    timestamp = 7;
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, ended, 0, &status, &timestamp), 0);
    EXPECT_EQ(timestamp, 7u); // a result is reported once
    EXPECT_EQ(failure_of(card, stuck, &status), ETIMEDOUT);
    EXPECT_EQ(status, kTimedOut);
}

// ---- timeouts

class Timeout : public SoftTest {};

TEST_F(Timeout, hanging_submission_resets_the_card) {
    uint32_t before = 0;
    {
        Card card;
        before = hard_resets(card.fd);
        const Notifier notifier(card);
        const uint64_t hung = card.submit(kDown, Packets().fence(), 0, 2);
        const uint64_t other = card.submit(kUp, Packets().fence());
        uint32_t status = 0;
        EXPECT_EQ(failure_of(card, hung, &status), ETIMEDOUT);
        EXPECT_EQ(status, kTimedOut);
        EXPECT_EQ(failure_of(card, other, &status), EIO);
        EXPECT_EQ(status, kAborted);
        EXPECT_EQ(failure_of(card, hung, &status), ETIMEDOUT);
        EXPECT_EQ(notifier.receive(), uint64_t{HL_NOTIFIER_EVENT_CS_TIMEOUT | HL_NOTIFIER_EVENT_DEVICE_RESET});
        hlthunk_event_record_cs_timeout record{};
        EXPECT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_CS_TIMEOUT, &record), 0);
        EXPECT_EQ(record.seq, hung);
        EXPECT_GT(record.timestamp, 0);
        EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_IN_RESET);
        hl_cs_chunk chunk = Card::chunk(kUp, 0, 0);
        EXPECT_EQ(submit_raw(card.fd, &chunk, 1), -EBUSY);
    }
    Card card;
    EXPECT_EQ(hard_resets(card.fd), before + 1);
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
    card.run(kDown, Packets().nop());
}

TEST_F(Timeout, timeout_without_a_waiter_is_detected) {
    Card card;
    const Notifier notifier(card);
    card.submit(kDown, Packets().fence(), 0, 1);
    EXPECT_EQ(notifier.receive(), uint64_t{HL_NOTIFIER_EVENT_CS_TIMEOUT | HL_NOTIFIER_EVENT_DEVICE_RESET});
}

TEST_F(Timeout, timeout_without_reset_leaves_the_card_working) {
    Card card;
    const Notifier notifier(card);
    const uint32_t before = hard_resets(card.fd);
    const uint64_t other = card.submit(kUp, Packets().fence());
    card.run(kOnCard, opening(kUp));
    EXPECT_EQ(card.wait(other), 0);
    const uint64_t hung = card.submit(kDown, Packets().fence(), HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT, 1);
    uint32_t status = 0;
    EXPECT_EQ(failure_of(card, hung, &status), ETIMEDOUT);
    EXPECT_EQ(status, kTimedOut);
    EXPECT_EQ(notifier.receive(), uint64_t{HL_NOTIFIER_EVENT_CS_TIMEOUT});
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
    EXPECT_EQ(hard_resets(card.fd), before);
    for (const uint32_t queue : {kDown, kUp, kOnCard})
        card.run(queue, Packets().nop());
    hlthunk_event_record_cs_timeout record{};
    EXPECT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_CS_TIMEOUT, &record), 0);
    EXPECT_EQ(record.seq, hung);
}

TEST_F(Timeout, only_the_oldest_submission_is_timed) {
    Card card;
    const uint64_t oldest = card.submit(kDown, Packets().fence());
    const uint64_t second = card.submit(kUp, Packets().fence(), HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT, 1);
    EXPECT_EQ(status_of(card, second, 2'500'000), kBusy); // far past its own timeout
    card.run(kOnCard, opening(kDown));
    EXPECT_EQ(card.wait(oldest), 0);
    EXPECT_EQ(failure_of(card, second), ETIMEDOUT);
}

TEST_F(Timeout, first_timeout_and_first_error_are_recorded) {
    Card card;
    const uint64_t first = card.submit(kDown, Packets().fence(), HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT, 1);
    EXPECT_EQ(failure_of(card, first), ETIMEDOUT);
    const uint64_t second = card.submit(kDown, Packets().fence(), HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT, 1);
    EXPECT_EQ(failure_of(card, second), ETIMEDOUT);
    hlthunk_event_record_cs_timeout timeout{};
    EXPECT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_CS_TIMEOUT, &timeout), 0);
    EXPECT_EQ(timeout.seq, first);
    EXPECT_EQ(failure_of(card, card.submit(kDown, Packets().add({0, 0}))), EIO);
    hlthunk_event_record_undefined_opcode opcode{};
    EXPECT_EQ(hlthunk_get_event_record(card.fd, HLTHUNK_UNDEFINED_OPCODE, &opcode), 0);
    EXPECT_GT(opcode.timestamp, 0);
}

// ---- threads

class Threads : public SoftTest {};

TEST_F(Threads, hundreds_on_one_descriptor_keep_their_bytes_apart) {
    Card card;
    constexpr unsigned kThreads = 256, kRounds = 4;
    constexpr uint32_t kSize = 20000;
    const uint64_t device = card.memory();
    std::atomic<unsigned> good = 0;
    const auto work = [&](unsigned thread) {
        auto out = pattern(kSize, thread);
        std::vector<unsigned char> back(kSize);
        const uint64_t from = hlthunk_host_memory_map(card.fd, out.data(), 0, kSize);
        const uint64_t to = hlthunk_host_memory_map(card.fd, back.data(), 0, kSize);
        const uint64_t slot = device + thread * uint64_t{kSize};
        Packets down, up;
        down.copy(from, slot, kSize);
        up.copy(slot, to, kSize);
        std::vector<char> buffer(static_cast<const char *>(down.data()),
                                 static_cast<const char *>(down.data()) + down.size());
        buffer.insert(buffer.end(), static_cast<const char *>(up.data()),
                      static_cast<const char *>(up.data()) + up.size());
        const uint64_t commands = hlthunk_host_memory_map(card.fd, buffer.data(), 0, buffer.size());
        bool fine = from != 0 && to != 0 && commands != 0;
        for (unsigned round = 0; round < kRounds && fine; ++round) {
            std::fill(back.begin(), back.end(), 0);
            for (const bool upwards : {false, true}) {
                std::array chunks = {Card::chunk((upwards ? kUp : kDown) + thread % 4,
                                                 commands + (upwards ? down.size() : 0), down.size())};
                uint64_t seq = 0;
                fine = fine && card.try_submit(chunks, seq) == 0 && card.wait(seq) == 0;
            }
            fine = fine && out == back;
        }
        for (const uint64_t address : {from, to, commands})
            fine = hlthunk_memory_unmap(card.fd, address) == 0 && fine;
        good += fine;
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back(work, i);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(good.load(), kThreads);
}

TEST_F(Threads, concurrent_submissions_have_one_order_on_all_queues) {
    Card card;
    constexpr unsigned kThreads = 64;
    // Each submission passes its value through one shared slot and holds the down queue until the up queue has taken
    // the value: values would mix if two submissions had opposite orders in the two queues.
    const uint64_t slot = card.memory();
    const uint32_t filled = kObject, taken = kObject + 8;
    std::vector<uint32_t> out(kThreads), back(kThreads);
    const uint64_t from = card.map(out), to = card.map(back);
    std::vector<std::array<hl_cs_chunk, 2>> chunks;
    for (uint32_t i = 0; i < kThreads; ++i) {
        out[i] = i + 1;
        const auto down = Packets()
                              .copy(from + 4 * i, slot, 4)
                              .set_object(filled, 1)
                              .monitor(kMonitor, taken, 1, fence_register(kDown), 1)
                              .fence()
                              .set_object(taken, 0);
        const auto up = Packets()
                            .monitor(kMonitor + 8, filled, 1, fence_register(kUp), 1)
                            .fence()
                            .set_object(filled, 0)
                            .copy(slot, to + 4 * i, 4)
                            .set_object(taken, 1);
        chunks.push_back(
            {Card::chunk(kDown, card.place(down), down.size()), Card::chunk(kUp, card.place(up), up.size())});
    }
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            uint64_t seq = 0;
            EXPECT_EQ(card.try_submit(chunks[i], seq), 0);
            EXPECT_EQ(card.wait(seq), 0);
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(out, back);
}

} // namespace
