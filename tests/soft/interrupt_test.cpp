// SPDX-License-Identifier: BSD-3-Clause
// Completion queues, user interrupts, and timestamps taken by them.
#include "steps.h"

using namespace soft;

namespace {

constexpr uint32_t kInterrupt = 257, kQueue = 2; // the first ones that programs can use
constexpr uint32_t kToQueue = 1u << 4 | 1u << 8; // monitor configuration: into a completion queue, with its message
constexpr uint32_t kCompleted = HL_WAIT_CS_STATUS_COMPLETED, kBusy = HL_WAIT_CS_STATUS_BUSY,
                   kAborted = HL_WAIT_CS_STATUS_ABORTED;

enum class Mode : uint32_t { entries = 0, counter = 1 };

Packets configure(uint32_t queue, uint64_t base, uint32_t interrupt, Mode mode, uint32_t size_log2 = 3) {
    const uint64_t first = kCfg + 0x411E050 + 4 * uint64_t{queue};
    constexpr uint64_t kDoorbell = 0x1000007FFCC17000;
    Packets packets;
    packets.message(first, static_cast<uint32_t>(base)).message(first + 0x100, static_cast<uint32_t>(base >> 32));
    packets.message(first + 0x200, size_log2);
    packets.message(first + 0x500, static_cast<uint32_t>(kDoorbell));
    packets.message(first + 0x600, static_cast<uint32_t>(kDoorbell >> 32));
    return packets.message(first + 0x700, interrupt).message(first + 0x800, static_cast<uint32_t>(mode));
}

/// Packets that push `value` to the completion queue each time they run.
Packets push(uint32_t queue, uint32_t value) {
    return Packets().set_object(kObject, 1).monitor(kMonitor, kObject, 1, queue, value, true, kToQueue);
}

class Interrupt : public SoftTest {
protected:
    static constexpr size_t kBytes = 4096;

    /// A driver-owned buffer of counters: its handle, device address and mapping.
    struct Counters {
        uint64_t handle = 0, address = 0;
        volatile uint64_t *values = nullptr;
    };
    static Counters counters(const Card &card, uint32_t size = 8) {
        Counters counters;
        EXPECT_EQ(hlthunk_request_mapped_command_buffer(card.fd, size, &counters.handle), 0);
        EXPECT_EQ(hlthunk_get_mapped_cb_device_va_by_handle(card.fd, counters.handle, &counters.address), 0);
        counters.values = static_cast<volatile uint64_t *>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, card.fd, static_cast<off_t>(counters.handle)));
        EXPECT_NE(counters.values, MAP_FAILED);
        return counters;
    }
    static Counters timestamps(const Card &card, uint32_t count) {
        Counters stamps;
        EXPECT_EQ(hlthunk_allocate_timestamp_elements(card.fd, count, &stamps.handle), 0);
        stamps.values = static_cast<volatile uint64_t *>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, card.fd, static_cast<off_t>(stamps.handle)));
        EXPECT_NE(stamps.values, MAP_FAILED);
        return stamps;
    }
    static uint32_t wait(const Card &card, const Counters &counters, uint64_t target, uint64_t timeout_us = kForever,
                         uint64_t index = 0, uint32_t interrupt = kInterrupt) {
        uint32_t status = 99;
        EXPECT_EQ(hlthunk_wait_for_interrupt_by_handle(card.fd, counters.handle, index, target, interrupt, timeout_us,
                                                       &status),
                  0)
            << strerror(errno);
        return status;
    }
};

TEST_F(Interrupt, counting_completion_queue_adds_up) {
    Card card;
    const Counters at = counters(card);
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::counter));
    card.run(kDown, push(kQueue, 101));
    EXPECT_EQ(at.values[0], 101u);
    card.run(kDown, push(kQueue, 7));
    EXPECT_EQ(at.values[0], 108u);
    EXPECT_EQ(wait(card, at, 108), kCompleted);
}

TEST_F(Interrupt, plain_completion_queue_holds_entries) {
    Card card;
    const Counters at = counters(card);
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::entries, 2)); // one entry
    for (const uint32_t value : {5u, 4u, 100u}) {
        card.run(kDown, push(kQueue, value));
        EXPECT_EQ(at.values[0], value); // the upper half stays zero
        EXPECT_EQ(at.values[1], 0u);
    }
    EXPECT_EQ(wait(card, at, 100), kCompleted);
}

TEST_F(Interrupt, completion_queue_wraps_around) {
    Card card;
    const Counters at = counters(card);
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::entries, 4)); // four entries
    for (uint32_t value = 1; value <= 6; ++value)
        card.run(kDown, push(kQueue, value));
    const auto *entries = reinterpret_cast<const volatile uint32_t *>(at.values);
    for (const auto &[index, value] : {std::pair{0, 5u}, {1, 6u}, {2, 3u}, {3, 4u}, {4, 0u}})
        EXPECT_EQ(entries[index], value) << index;
}

TEST_F(Interrupt, two_monitors_firing_together_both_count) {
    Card card;
    const Counters at = counters(card);
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::counter));
    card.run(kDown, Packets()
                        .monitor(kMonitor, kObject, 1, kQueue, 10, true, kToQueue)
                        .monitor(kMonitor + 8, kObject, 1, kQueue, 3, true, kToQueue)
                        .set_object(kObject, 1));
    EXPECT_EQ(at.values[0], 13u);
}

TEST_F(Interrupt, completion_queue_counts_in_every_kind_of_memory) {
    Card card;
    std::vector<uint64_t> host(4);
    const uint64_t device = card.memory();
    card.run(kDown, Packets().fill(0, kSram, 8));
    for (const uint64_t base : {card.map(host) + 8, kSram, device}) {
        card.run(kDown, configure(kQueue, base, kInterrupt, Mode::counter));
        card.run(kDown, push(kQueue, 40));
        card.run(kDown, push(kQueue, 2));
        EXPECT_EQ(peek(card, base, 8), (std::vector<unsigned char>{42, 0, 0, 0, 0, 0, 0, 0}));
    }
    EXPECT_EQ(host, (std::vector<uint64_t>{0, 42, 0, 0}));
}

TEST_F(Interrupt, wait_ends_when_counter_reaches_target) {
    Card card;
    const Counters at = counters(card);
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::counter));
    std::atomic<pid_t> id = 0;
    std::atomic<bool> done = false;
    std::thread waiter([&] {
        id = gettid();
        EXPECT_EQ(wait(card, at, 3), kCompleted);
        done = true;
    });
    wait_until_asleep(id);
    for (int i = 0; i < 2; ++i) {
        card.run(kDown, push(kQueue, 1));
        EXPECT_FALSE(done);
    }
    card.run(kDown, push(kQueue, 1));
    waiter.join();
}

TEST_F(Interrupt, wait_by_address_reads_program_memory) {
    Card card;
    std::vector<uint64_t> counter(1);
    card.run(kDown, configure(kQueue, card.map(counter), kInterrupt, Mode::counter));
    uint32_t status = 99;
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, counter.data(), 1, kInterrupt, 0, &status), 0);
    EXPECT_EQ(status, kBusy);
    std::atomic<pid_t> id = 0;
    std::thread waiter([&] {
        id = gettid();
        EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, counter.data(), 100, kInterrupt, kForever, &status), 0);
    });
    wait_until_asleep(id);
    card.run(kDown, push(kQueue, 100));
    waiter.join();
    EXPECT_EQ(status, kCompleted);
    EXPECT_EQ(counter[0], 100u);
}

TEST_F(Interrupt, wait_with_counter_at_target_returns_at_once) {
    Card card;
    const Counters at = counters(card);
    at.values[5] = 9; // written by the program itself
    EXPECT_EQ(wait(card, at, 9, 0, 5), kCompleted);
    EXPECT_EQ(wait(card, at, 10, 0, 5), kBusy);
    uint64_t own = 3;
    uint32_t status = 99;
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &own, 3, kInterrupt, kForever, &status), 0);
    EXPECT_EQ(status, kCompleted);
}

TEST_F(Interrupt, wait_past_its_timeout_is_busy) {
    Card card;
    const Counters at = counters(card);
    uint64_t own = 0, timestamp = 12;
    uint32_t status = 99;
    EXPECT_EQ(wait(card, at, 1, 1000), kBusy);
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &own, 1, kInterrupt, 1000, &status), 0);
    EXPECT_EQ(status, kBusy);
    EXPECT_EQ(hlthunk_wait_for_interrupt_with_timestamp(card.fd, &own, 1, kInterrupt, 1000, &status, &timestamp), 0);
    EXPECT_EQ(status, kBusy);
    EXPECT_EQ(timestamp, 12u);
}

TEST_F(Interrupt, other_interrupt_does_not_end_the_wait) {
    Card card;
    const Counters at = counters(card);
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::counter));
    std::atomic<pid_t> id = 0;
    std::atomic<bool> done = false;
    std::thread waiter([&] {
        id = gettid();
        EXPECT_EQ(wait(card, at, 1, kForever, 0, kInterrupt + 1), kCompleted);
        done = true;
    });
    wait_until_asleep(id);
    card.run(kDown, push(kQueue, 1));
    wait_until_asleep(id);
    EXPECT_FALSE(done); // the value is there, but no interrupt came
    card.run(kDown, Packets().message(0x1000007FFCC17000, kInterrupt + 1));
    waiter.join();
}

TEST_F(Interrupt, wait_for_any_interrupt_ends_with_each) {
    for (const uint32_t any : {UINT32_MAX, 0xFFFu}) {
        Card card;
        const Counters at = counters(card);
        card.run(kDown, configure(kQueue + 7, at.address, kInterrupt + 100, Mode::counter));
        std::atomic<pid_t> id = 0;
        std::thread waiter([&] {
            id = gettid();
            EXPECT_EQ(wait(card, at, 1, kForever, 0, any), kCompleted);
        });
        wait_until_asleep(id);
        card.run(kDown, push(kQueue + 7, 1));
        waiter.join();
    }
}

TEST_F(Interrupt, wait_with_timestamp_returns_the_time) {
    Card card;
    const Counters at = counters(card);
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::counter));
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
    };
    const uint64_t before = now();
    card.run(kDown, push(kQueue, 1));
    uint32_t status = 99;
    uint64_t timestamp = 0;
    EXPECT_EQ(hlthunk_wait_for_interrupt_by_handle_with_timestamp(card.fd, at.handle, 0, 1, kInterrupt, kForever,
                                                                  &status, &timestamp),
              0);
    EXPECT_EQ(status, kCompleted);
    EXPECT_GE(timestamp, before);
    EXPECT_LE(timestamp, now());
}

TEST_F(Interrupt, wrong_wait_arguments_are_refused) {
    Card card;
    const Counters at = counters(card);
    uint64_t own = 0, timestamp = 0, plain = 0;
    uint32_t status = 0;
    const auto by_handle = [&](uint64_t handle, uint64_t index, uint32_t interrupt) {
        errno = 0;
        const int result = hlthunk_wait_for_interrupt_by_handle(card.fd, handle, index, 1, interrupt, 0, &status);
        EXPECT_EQ(errno, -result);
        return result;
    };
    for (const uint32_t interrupt : {10u, 256u, 512u, 4000u, 0x10000u})
        EXPECT_EQ(by_handle(at.handle, 0, interrupt), -EINVAL) << interrupt;
    EXPECT_EQ(by_handle(at.handle, 0, 511), 0); // the last one
    EXPECT_EQ(by_handle(at.handle, 511, kInterrupt), 0);
    EXPECT_EQ(by_handle(at.handle, 512, kInterrupt), -EINVAL); // past the page to which 8 bytes were rounded up
    EXPECT_EQ(by_handle(at.handle, UINT64_MAX, kInterrupt), -EINVAL);
    EXPECT_EQ(by_handle(0, 0, kInterrupt), -EINVAL);
    EXPECT_EQ(by_handle(at.handle + 4096, 0, kInterrupt), -EINVAL);
    ASSERT_EQ(hlthunk_request_command_buffer(card.fd, 4096, &plain), 0);
    EXPECT_EQ(hlthunk_destroy_command_buffer(card.fd, plain), 0);
    EXPECT_EQ(by_handle(plain, 0, kInterrupt), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &own, 1, 600, 0, &status), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, nullptr, 1, kInterrupt, 0, &status), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &own, 1, kInterrupt, 0, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_interrupt_by_handle(card.fd, at.handle, 0, 1, kInterrupt, 0, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_interrupt_with_timestamp(card.fd, &own, 1, kInterrupt, 0, nullptr, &timestamp), -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_interrupt_with_timestamp(card.fd, &own, 1, kInterrupt, 0, &status, nullptr), -EINVAL);
    EXPECT_EQ(
        hlthunk_wait_for_interrupt_by_handle_with_timestamp(card.fd, at.handle, 0, 1, kInterrupt, 0, &status, nullptr),
        -EINVAL);
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, reinterpret_cast<void *>(8), 1, kInterrupt, 0, &status), -EFAULT);
    const int control = hlthunk_open_control(0, nullptr);
    EXPECT_EQ(hlthunk_wait_for_interrupt(control, &own, 1, kInterrupt, 0, &status), -ENOTTY);
    EXPECT_EQ(hlthunk_close(control), 0);
}

TEST_F(Interrupt, timestamp_is_taken_when_counter_reaches_target) {
    Card card;
    const Counters at = counters(card), stamps = timestamps(card, 10);
    for (uint32_t i = 0; i < 4; ++i)
        card.run(kDown, configure(kQueue + i, at.address + 8 * i, kInterrupt, Mode::counter));
    // Counter 2 has no timestamp; the others have one each on the same interrupt.
    for (const auto &[counter, target, record] : {std::array{0, 100, 0}, {1, 200, 1}, {3, 400, 2}})
        ASSERT_EQ(hlthunk_register_timestamp_interrupt(card.fd, kInterrupt, at.handle, static_cast<uint64_t>(counter),
                                                       static_cast<uint64_t>(target), stamps.handle,
                                                       static_cast<uint64_t>(record)),
                  0);
    for (uint32_t i = 0; i < 3; ++i)
        card.run(kDown, push(kQueue + i, 101 + 100 * i));
    EXPECT_GT(stamps.values[0], 0u);
    EXPECT_GE(stamps.values[1], stamps.values[0]);
    EXPECT_EQ(stamps.values[2], 0u);
    const uint64_t first = stamps.values[0];
    card.run(kDown, push(kQueue + 3, 401));
    EXPECT_GE(stamps.values[2], stamps.values[1]);
    card.run(kDown, push(kQueue, 1000));
    EXPECT_EQ(stamps.values[0], first); // taken once
}

TEST_F(Interrupt, timestamp_at_target_is_immediate_and_pending_one_can_be_rearmed) {
    Card card;
    const Counters at = counters(card), stamps = timestamps(card, 2);
    at.values[0] = 50;
    const auto arm = [&](uint64_t target, uint64_t record) {
        return hlthunk_register_timestamp_interrupt(card.fd, kInterrupt, at.handle, 0, target, stamps.handle, record);
    };
    EXPECT_EQ(arm(50, 0), 0);
    EXPECT_GT(stamps.values[0], 0u);
    EXPECT_EQ(arm(60, 1), 0);
    EXPECT_EQ(arm(70, 1), 0); // rearmed for a later value
    card.run(kDown, configure(kQueue, at.address, kInterrupt, Mode::counter));
    card.run(kDown, push(kQueue, 15));
    EXPECT_EQ(stamps.values[1], 0u);
    card.run(kDown, push(kQueue, 5));
    EXPECT_GT(stamps.values[1], 0u);
}

TEST_F(Interrupt, wrong_timestamp_arguments_are_refused) {
    Card card;
    const Counters at = counters(card), stamps = timestamps(card, 2);
    uint64_t handle = 0;
    const auto arm = [&](uint32_t interrupt, uint64_t counters_, uint64_t index, uint64_t records, uint64_t record) {
        return hlthunk_register_timestamp_interrupt(card.fd, interrupt, counters_, index, 1, records, record);
    };
    EXPECT_EQ(arm(kInterrupt, at.handle, 0, stamps.handle, 0), 0);
    EXPECT_EQ(arm(10, at.handle, 0, stamps.handle, 0), -EINVAL);
    EXPECT_EQ(arm(kInterrupt, 0, 0, stamps.handle, 0), -EINVAL);
    EXPECT_EQ(arm(kInterrupt, at.handle, 512, stamps.handle, 0), -EINVAL);
    EXPECT_EQ(arm(kInterrupt, at.handle, 0, at.handle, 0), -EINVAL); // not a timestamp buffer
    EXPECT_EQ(arm(kInterrupt, stamps.handle, 0, stamps.handle, 0), -EINVAL);
    EXPECT_EQ(arm(kInterrupt, at.handle, 0, stamps.handle, 2), -EINVAL); // the buffer has two
    EXPECT_EQ(hlthunk_allocate_timestamp_elements(card.fd, (1u << 20) + 1, &handle), -EINVAL);
    EXPECT_EQ(hlthunk_allocate_timestamp_elements(card.fd, 0, &handle), -ENOMEM);
    EXPECT_EQ(hlthunk_allocate_timestamp_elements(card.fd, 1, nullptr), -EINVAL);
}

TEST_F(Interrupt, reset_ends_all_waits) {
    Card card;
    const Counters at = counters(card);
    uint64_t own = 0;
    std::array<std::atomic<pid_t>, 2> ids{};
    std::array<int, 2> results{};
    std::array<uint32_t, 2> status = {99, 99};
    std::thread by_handle([&] {
        ids[0] = gettid();
        results[0] = hlthunk_wait_for_interrupt_by_handle(card.fd, at.handle, 0, 1, kInterrupt, kForever, &status[0]);
    });
    std::thread by_address([&] {
        ids[1] = gettid();
        results[1] = hlthunk_wait_for_interrupt(card.fd, &own, 1, UINT32_MAX, kForever, &status[1]);
    });
    for (const auto &id : ids)
        wait_until_asleep(id);
    EXPECT_EQ(card.wait(card.submit(kDown, Packets().add({0, 0}))), -EIO);
    by_handle.join();
    by_address.join();
    EXPECT_EQ(results[0], -EIO);
    EXPECT_EQ(status[0], kAborted);
    EXPECT_EQ(results[1], 0);
    EXPECT_EQ(status[1], kAborted);
}

TEST_F(Interrupt, many_threads_on_many_interrupts_all_wake) {
    Card card;
    constexpr uint32_t kQueues = 20, kWaiters = 8;
    const Counters at = counters(card);
    for (uint32_t i = 0; i < kQueues; ++i)
        card.run(kDown, configure(kQueue + i, at.address + 8 * i, kInterrupt + i, Mode::counter));
    std::vector<std::thread> threads;
    std::atomic<uint32_t> good = 0;
    for (uint32_t i = 0; i < kQueues; ++i) {
        for (uint32_t waiter = 1; waiter <= kWaiters; ++waiter) // each for another value
            threads.emplace_back([&, i, waiter] {
                good += wait(card, at, waiter, kForever, i, kInterrupt + i) == kCompleted && at.values[i] >= waiter;
            });
    }
    for (uint32_t round = 0; round < kWaiters; ++round)
        for (uint32_t i = 0; i < kQueues; ++i)
            card.run(kDown, push(kQueue + i, 1));
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(good.load(), kQueues * kWaiters);
}

} // namespace
