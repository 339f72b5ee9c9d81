// SPDX-License-Identifier: BSD-3-Clause
// SOFTGAUDI_QUIRKS: behaviour of some drivers, libraries and servers that programs must bear.
#include "soft.h"
#include "steps.h"

#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <atomic>
#include <thread>
#include <utility>

using namespace soft;

namespace {

using Quirk = SoftTest;

std::string bus_id_of(int fd) {
    std::array<char, 16> name{};
    return hlthunk_get_pci_bus_id_from_fd(fd, name.data(), static_cast<int>(name.size())) == 0 ? name.data() : "";
}

int wait_on(int fd) {
    uint32_t status = 0;
    return hlthunk_wait_for_cs(fd, 0, 0, &status);
}

// ---- fallback

TEST_F(Quirk, fallback_takes_other_descriptors_for_the_first_card) {
    set("SOFTGAUDI_QUIRKS", "fallback");
    const Card second("0000:1a:00.0");
    const int event = eventfd(0, 0), null = open("/dev/null", O_RDWR);
    const std::string first = bus_id_of(event);
    EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id(first.c_str()), 0);
    EXPECT_EQ(bus_id_of(null), first);
    EXPECT_NE(bus_id_of(second.fd), first);
    EXPECT_EQ(bus_id_of(-1), "");
    EXPECT_EQ(wait_on(event), -ENOTTY);
    EXPECT_EQ(wait_on(null), -EINVAL) << "as other drivers do";
    EXPECT_EQ(wait_on(second.fd), 0);
    close(event);
    close(null);
}

TEST_F(Quirk, other_descriptors_are_of_no_card_without_fallback) {
    const int event = eventfd(0, 0);
    EXPECT_EQ(bus_id_of(event), "");
    close(event);
}

// ---- early_flag

/// Copies to host memory on several queues, each followed by a message: the completion flag.
class EarlyFlag : public SoftTest {
protected:
    static constexpr uint32_t kLength = 512 << 10;
    static constexpr std::array<uint32_t, 6> kQueuesUsed = {4, 5, 8, 12, 48, 52};

    EarlyFlag() {
        for (size_t i = 0; i < kQueuesUsed.size(); ++i)
            m_commands[i] = m_card.place(commands(i));
    }
    Packets commands(size_t i) const {
        return Packets().copy(m_memory, m_back_at + i * kLength, kLength).message(m_flags_at + i * 4, 1);
    }

    /// Submits one copy of a byte on each of the first `queues` and returns how many had not arrived when `has_ended(i)` held.
    template <class HasEnded>
    unsigned count_wrong(unsigned char byte, size_t queues, HasEnded has_ended) {
        std::fill(m_source.begin(), m_source.end(), byte);
        std::fill(m_flags.begin(), m_flags.end(), 0);
        submit(kDown, m_down, m_down_size, m_seqs[0]);
        EXPECT_EQ(m_card.wait(m_seqs[0]), 0);
        for (size_t i = 0; i < queues; ++i)
            submit(kQueuesUsed[i], m_commands[i], commands(i).size(), m_seqs[i]);
        unsigned wrong = 0;
        for (size_t i = 0; i < queues; ++i) {
            while (!has_ended(i))
                sched_yield();
            const auto *bytes = reinterpret_cast<const volatile unsigned char *>(m_back.data() + i * kLength);
            wrong += bytes[kLength - 1] != byte ? 1 : 0;
        }
        for (size_t i = 0; i < queues; ++i)
            EXPECT_EQ(m_card.wait(m_seqs[i]), 0);
        return wrong;
    }
    void submit(uint32_t queue, uint64_t at, uint32_t size, uint64_t &seq) {
        std::array chunks = {Card::chunk(queue, at, size)};
        EXPECT_EQ(m_card.try_submit(chunks, seq), 0);
    }
    auto by_flag() {
        return [this](size_t i) { return std::atomic_ref(m_flags[i]).load(std::memory_order_acquire) == 1; };
    }
    auto by_driver() {
        return [this](size_t i) {
            uint32_t status = 0;
            return hlthunk_wait_for_cs(m_card.fd, m_seqs[i], 1'000'000, &status) == 0 &&
                   status == HL_WAIT_CS_STATUS_COMPLETED;
        };
    }

    const bool m_quirk = (set("SOFTGAUDI_QUIRKS", "early_flag"), true); // before the card opens
    Card m_card;
    uint64_t m_memory = m_card.memory();
    std::vector<unsigned char> m_back = std::vector<unsigned char>(kQueuesUsed.size() * kLength);
    std::vector<uint32_t> m_flags = std::vector<uint32_t>(kQueuesUsed.size());
    uint64_t m_back_at = m_card.map(m_back), m_flags_at = m_card.map(m_flags);
    std::vector<unsigned char> m_source = std::vector<unsigned char>(kLength);
    const Packets m_fill = Packets().copy(m_card.map(m_source), m_memory, kLength);
    uint64_t m_down = m_card.place(m_fill);
    uint32_t m_down_size = m_fill.size();
    std::array<uint64_t, kQueuesUsed.size()> m_seqs{}, m_commands{};
};

TEST_F(EarlyFlag, idle_card_writes_the_flag_after_the_data) {
    for (unsigned round = 0; round < 200; ++round) {
        const auto byte = static_cast<unsigned char>(1 + round % 255);
        ASSERT_EQ(count_wrong(byte, 1, by_flag()), 0u) << round;
    }
}

TEST_F(EarlyFlag, loaded_card_writes_some_flags_before_the_data) {
    unsigned wrong = 0, rounds = 0;
    for (; wrong == 0 && rounds < 20'000; ++rounds) {
        const auto byte = static_cast<unsigned char>(1 + rounds % 255);
        wrong = count_wrong(byte, kQueuesUsed.size(), by_flag());
    }
    EXPECT_GT(wrong, 0u) << "in " << rounds << " rounds";
}

TEST_F(EarlyFlag, driver_reports_the_end_after_the_data) {
    for (unsigned round = 0; round < 500; ++round)
        ASSERT_EQ(count_wrong(static_cast<unsigned char>(1 + round % 255), kQueuesUsed.size(), by_driver()), 0u);
}

// ---- nested

class NestedQuirk : public SoftTest, public ::testing::WithParamInterface<bool> {
protected:
    NestedQuirk() { set("SOFTGAUDI_QUIRKS", GetParam() ? "nested" : ""); }
};

TEST_P(NestedQuirk, outer_buffer_goes_on_before_the_nested_one) {
    Card card;
    std::vector<uint32_t> words(2);
    const uint64_t at = card.map(words);
    const Packets inner = Packets().message(at, 1);
    card.run(kDown, Packets().nested(card.place(inner), inner.size()).message(at, 2));
    EXPECT_EQ(words[0], GetParam() ? 1u : 2u) << "the last one stays";
}

TEST_P(NestedQuirk, nested_buffers_run_in_order_and_before_the_end) {
    Card card;
    std::vector<uint32_t> words(2);
    const uint64_t at = card.map(words);
    const Packets first = Packets().message(at, 1).message(at + 4, 7), second = Packets().message(at, 2);
    card.run(kDown, Packets().nested(card.place(first), first.size()).nested(card.place(second), second.size()).nop());
    EXPECT_EQ(words, (std::vector<uint32_t>{2, 7}));
}

TEST_P(NestedQuirk, fence_waits_for_the_nested_buffer_that_passes_it) {
    Card card;
    std::vector<uint32_t> words(1);
    const uint64_t at = card.map(words);
    const Packets inner = Packets().message(fence_register(0), 1);
    card.run(kDown, Packets().nested(card.place(inner), inner.size()).fence().message(at, 3));
    EXPECT_EQ(words[0], 3u);
}

INSTANTIATE_TEST_SUITE_P(, NestedQuirk, ::testing::Bool(),
                         [](const auto &quirk) { return quirk.param ? "asynchronous" : "usual"; });

// ---- a short BAR

TEST_F(Quirk, export_longer_than_the_bar_is_refused) {
    set("SOFTGAUDI_BAR", "768");
    Card card;
    const uint64_t address = card.memory(2 * kPage);
    const int fd = hlthunk_device_memory_export_dmabuf_fd(card.fd, address, kPage, 0);
    EXPECT_GE(fd, 0);
    close(fd);
    EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(card.fd, address, 2 * kPage, 0), -EINVAL);
}

// ---- kill, and processes that die

class ReportedReset : public SoftTest {
protected:
    ReportedReset() { set("SOFTGAUDI_QUIRKS", "kill"); }
    static void make_error(Card &card) { card.submit(kDown, Packets().message(0x1000, 1)); } // no such address
};

TEST_F(ReportedReset, waits_until_the_card_is_closed) {
    uint32_t before = 0;
    {
        Card card;
        before = hard_resets(card.fd);
        const Notifier notifier(card);
        make_error(card);
        EXPECT_EQ(notifier.receive(), uint64_t{HL_NOTIFIER_EVENT_USER_ENGINE_ERR | HL_NOTIFIER_EVENT_PAGE_FAULT |
                                               HL_NOTIFIER_EVENT_DEVICE_RESET});
        EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
        EXPECT_EQ(hard_resets(card.fd), before);
        EXPECT_EQ(wait_on(card.fd), -EBUSY) << "the driver reports no submission any more";
        uint32_t status = 0;
        uint64_t word = 0;
        EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &word, 1, 257, 0, &status), -EBUSY);
        EXPECT_NE(card.memory(), 0u);
    }
    Card card;
    EXPECT_EQ(hard_resets(card.fd), before + 1);
    card.run(kDown, Packets().nop());
}

TEST_F(ReportedReset, ends_waits_that_had_begun) {
    Card card;
    const Notifier notifier(card);
    const uint64_t held = card.submit(kUp, Packets().fence());
    std::atomic<pid_t> id = 0;
    int result = 0;
    std::thread waiter([&] {
        id = gettid();
        result = card.wait(held);
    });
    wait_until_asleep(id);
    make_error(card);
    waiter.join();
    EXPECT_EQ(result, -EIO);
}

TEST_F(ReportedReset, comes_at_once_without_a_notifier) {
    Card card;
    const uint32_t before = hard_resets(card.fd);
    std::array chunks = {Card::chunk(kDown, 0x1000, 8)};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    EXPECT_EQ(card.wait(seq), -EIO);
    EXPECT_EQ(hard_resets(card.fd), before + 1);
}

#ifndef __SANITIZE_THREAD__ // which ends a forked child that starts a thread

/// A process that opens the card and runs `work` on it; then it waits to be ended.
class Holder {
public:
    explicit Holder(const std::function<void(Card &)> &work) {
        int ready[2];
        EXPECT_EQ(pipe(ready), 0);
        m_process = fork();
        if (m_process == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            Card card;
            work(card);
            (void)!write(ready[1], "r", 1);
            while (true)
                pause();
        }
        close(ready[1]); // so that the read ends with the process too: the card may have it killed before it writes
        char byte = 0;
        EXPECT_GE(read(ready[0], &byte, 1), 0);
        close(ready[0]);
    }
    ~Holder() { wait_for_end(SIGKILL); }

    /// The signal that ended the process; `signal` is sent to it first.
    int wait_for_end(int signal = 0) {
        if (m_process == 0)
            return 0;
        if (signal != 0)
            kill(m_process, signal);
        int status = 0;
        EXPECT_GT(waitpid(std::exchange(m_process, 0), &status, 0), 0);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }

private:
    pid_t m_process = 0;
};

TEST_F(Quirk, kill_ends_the_process_that_keeps_a_card_in_reset_open) {
    set("SOFTGAUDI_QUIRKS", "kill");
    Holder holder([](Card &card) { card.submit(kDown, Packets().copy(0x1000, 0x2000, 64)); }); // no such addresses
    EXPECT_EQ(holder.wait_for_end(), SIGKILL) << "after a second";
    const Card card;
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
}

TEST_F(Quirk, kill_ends_the_process_that_does_not_heed_its_notifier) {
    set("SOFTGAUDI_QUIRKS", "kill:1");
    Holder holder([](Card &card) {
        ASSERT_GE(hlthunk_notifier_create(card.fd), 0);
        card.submit(kDown, Packets().copy(0x1000, 0x2000, 64)); // no such addresses
    });
    EXPECT_EQ(holder.wait_for_end(), SIGKILL) << "a second before the reset, and one after it";
    const Card card;
}

TEST_F(Quirk, work_of_a_process_that_died_is_aborted_with_its_context) {
    Holder holder([](Card &card) { card.submit(kDown, Packets().fence()); }); // never passes
    const int control = hlthunk_open_control(0, nullptr);
    ASSERT_GE(control, 0);
    EXPECT_FALSE(hlthunk_is_device_idle(control));
    hlthunk_reset_count_info before{}, after{};
    ASSERT_EQ(hlthunk_get_reset_count_info(control, &before), 0);
    EXPECT_EQ(holder.wait_for_end(SIGKILL), SIGKILL);
    EXPECT_TRUE(hlthunk_is_device_idle(control));
    ASSERT_EQ(hlthunk_get_reset_count_info(control, &after), 0);
    EXPECT_EQ(after.hard_reset_count, before.hard_reset_count + 1) << "the driver found the engines busy";
    hlthunk_close(control);
    const Card card;
}

#endif

} // namespace
