// SPDX-License-Identifier: BSD-3-Clause
// SOFTGAUDI_PACE=virtual: on the virtual clock every duration is an exact number.
#include "pace.h"

#include "clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

using namespace soft;

namespace {

constexpr uint32_t kTimestamp = 0x20; // flag of a submission

constexpr uint32_t kBusy = HL_WAIT_CS_STATUS_BUSY, kCompleted = HL_WAIT_CS_STATUS_COMPLETED;

class VirtualPace : public SoftTest {
protected:
    /// The status of a wait that may time out.
    static uint32_t wait(Card &card, uint64_t seq, uint64_t timeout_us) {
        uint32_t status = 99;
        EXPECT_EQ(card.wait(seq, &status, timeout_us), 0);
        return status;
    }
    /// The memory of the clock, as all processes share it.
    softgaudi::ClockState &clock() const {
        const int file = open((dir() + "/clock").c_str(), O_RDWR | O_CLOEXEC);
        void *memory = mmap(nullptr, sizeof(softgaudi::ClockState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (memory == MAP_FAILED)
            throw std::runtime_error("no clock in " + dir());
        return *static_cast<softgaudi::ClockState *>(memory);
    }
};

TEST_F(VirtualPace, clock_stands_still_without_a_wait) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    const uint64_t start = now(card);
    card.submit(kDown, card.down());
    EXPECT_EQ(now(card), start);
    EXPECT_NE(start, 0u);
}

TEST_F(VirtualPace, copy_takes_submission_plus_link_time) {
    set("SOFTGAUDI_PACE", "virtual:down:25,up:20,card:100,submit:3");
    Bench card;
    const uint64_t start = now(card);
    card.run(kDown, card.down());
    const uint64_t down = now(card);
    card.run(kUp, card.up());
    const uint64_t up = now(card);
    card.run(kOnCard, card.across());
    EXPECT_EQ(down - start, 3'000u + 40'000);
    EXPECT_EQ(up - down, 3'000u + 50'000);
    EXPECT_EQ(now(card) - up, 3'000u + 10'000);
}

TEST_F(VirtualPace, time_of_a_long_copy_is_rounded_once) {
    set("SOFTGAUDI_PACE", "virtual:down:30");
    Bench card(nullptr, 70'000'001);
    const uint64_t start = now(card);
    card.run(kDown, card.down());
    EXPECT_EQ(now(card) - start, 2'333'333u);
}

TEST_F(VirtualPace, link_without_figure_takes_no_time) {
    set("SOFTGAUDI_PACE", "virtual:up:1");
    Bench card;
    const uint64_t start = now(card);
    card.run(kDown, card.down());
    EXPECT_EQ(now(card), start);
}

TEST_F(VirtualPace, copies_down_on_two_queues_share_the_link) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    const uint64_t start = now(card);
    const uint64_t first = card.submit(kDown, card.down());
    const uint64_t second = card.submit(kDown + 1, card.down());
    EXPECT_EQ(card.wait(first), 0);
    EXPECT_EQ(now(card) - start, 1'000'000u);
    EXPECT_EQ(card.wait(second), 0);
    EXPECT_EQ(now(card) - start, 2'000'000u);
}

TEST_F(VirtualPace, copies_down_and_up_overlap) {
    set("SOFTGAUDI_PACE", "virtual:down:1,up:1");
    Bench card;
    const uint64_t start = now(card);
    card.run(kDown, card.down());
    card.run(kUp, card.up());
    const uint64_t middle = now(card);
    const uint64_t first = card.submit(kDown, card.down());
    const uint64_t second = card.submit(kUp, card.up());
    EXPECT_EQ(card.wait(first), 0);
    EXPECT_EQ(card.wait(second), 0);
    EXPECT_EQ(middle - start, 2 * (now(card) - middle));
    EXPECT_EQ(middle - start, 2'000'000u);
}

TEST_F(VirtualPace, copies_on_the_card_overlap_with_others) {
    set("SOFTGAUDI_PACE", "virtual:down:1,up:1,card:1");
    Bench card;
    const uint64_t start = now(card);
    const std::array seqs = {card.submit(kDown, card.down()), card.submit(kUp, card.up()),
                             card.submit(kOnCard, card.across())};
    for (const uint64_t seq : seqs)
        EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

TEST_F(VirtualPace, one_queue_runs_in_order_on_different_links) {
    set("SOFTGAUDI_PACE", "virtual:down:1,up:1");
    Bench card;
    const uint64_t start = now(card);
    const uint64_t first = card.submit(kDown, card.up());
    const uint64_t second = card.submit(kDown, card.down());
    EXPECT_EQ(card.wait(second), 0);
    EXPECT_EQ(now(card) - start, 2'000'000u);
    EXPECT_EQ(card.wait(first), 0);
}

TEST_F(VirtualPace, fill_occupies_the_link_of_the_card) {
    set("SOFTGAUDI_PACE", "virtual:card:2");
    Bench card;
    const uint64_t start = now(card);
    card.run(kOnCard, Packets().fill(7, card.device, 1'000'000));
    EXPECT_EQ(now(card) - start, 500'000u);
}

TEST_F(VirtualPace, submission_costs_add_up) {
    set("SOFTGAUDI_PACE", "virtual:submit:5");
    Card card;
    const uint64_t buffer = card.place(Packets().nop());
    const uint64_t start = now(card);
    uint64_t seq = 0;
    for (uint32_t i = 0; i < 10; ++i) {
        std::array chunks = {Card::chunk(i % 8, buffer, 8)};
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
    }
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(now(card) - start, 50'000u);
}

TEST_F(VirtualPace, each_map_takes_its_cost) {
    set("SOFTGAUDI_PACE", "virtual:map:40");
    Card card;
    std::vector<char> data(100);
    const uint64_t start = now(card);
    card.map(data);
    EXPECT_EQ(now(card) - start, 40'000u);
    card.memory();
    EXPECT_EQ(now(card) - start, 80'000u);
}

TEST_F(VirtualPace, copy_overlaps_with_host_map) {
    set("SOFTGAUDI_PACE", "virtual:down:1,map:400");
    Bench card;
    std::vector<char> data(100);
    const uint64_t buffer = card.place(card.down());
    const uint64_t start = now(card);
    std::array chunks = {Card::chunk(kDown, buffer, card.down().size())};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    card.map(data);
    EXPECT_EQ(now(card) - start, 400'000u);
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

TEST_F(VirtualPace, wait_past_its_timeout_takes_exactly_that_time) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    const uint64_t start = now(card);
    const uint64_t seq = card.submit(kDown, card.down());
    EXPECT_EQ(wait(card, seq, 300), kBusy);
    EXPECT_EQ(now(card) - start, 300'000u);
    EXPECT_EQ(wait(card, seq, 10'000), kCompleted);
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

TEST_F(VirtualPace, only_a_repeated_poll_moves_the_clock) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    const uint64_t start = now(card);
    const uint64_t first = card.submit(kDown, card.down());
    EXPECT_EQ(wait(card, first, 0), kBusy);
    EXPECT_EQ(now(card), start);
    const uint64_t second = card.submit(kDown, card.down());
    EXPECT_EQ(wait(card, first, 0), kBusy); // after a new submission this is a first poll again
    EXPECT_EQ(now(card), start);
    EXPECT_EQ(wait(card, first, 0), kCompleted);
    EXPECT_EQ(now(card) - start, 1'000'000u);
    EXPECT_EQ(card.wait(second), 0);
}

TEST_F(VirtualPace, polling_several_in_turn_completes_all) {
    set("SOFTGAUDI_PACE", "virtual:down:1,up:2");
    Bench card;
    const uint64_t start = now(card);
    std::vector<uint64_t> open = {card.submit(kDown, card.down()), card.submit(kUp, card.up()),
                                  card.submit(kDown, card.down())};
    std::vector<uint64_t> times;
    for (int round = 0; round < 100 && !open.empty(); ++round) {
        std::erase_if(open, [&](uint64_t seq) {
            if (wait(card, seq, 0) == kBusy)
                return false;
            times.push_back(now(card) - start);
            return true;
        });
    }
    EXPECT_EQ(times, (std::vector<uint64_t>{500'000, 1'000'000, 2'000'000}));
}

TEST_F(VirtualPace, bytes_are_not_visible_before_their_time) {
    set("SOFTGAUDI_PACE", "virtual:up:1,down:1");
    Bench card;
    card.host.assign(card.bytes, 3);
    card.run(kDown, card.down());
    uint32_t flag = 0;
    const uint64_t address = card.map(&flag, sizeof flag);
    const uint64_t start = now(card);
    const uint64_t seq = card.submit(kUp, card.up().message(address, 77));
    EXPECT_EQ(wait(card, seq, 999), kBusy); // one microsecond too short
    EXPECT_EQ(read_value(flag), 0u);
    EXPECT_EQ(read_value(card.back[0]), 0);
    EXPECT_EQ(read_value(card.back[card.bytes - 1]), 0);
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(read_value(flag), 77u);
    EXPECT_EQ(card.back, card.host);
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

TEST_F(VirtualPace, copy_that_repeats_the_last_one_is_made) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    card.host.assign(card.bytes, 1);
    const uint64_t seq = card.submit(
        kDown, card.down().copy(card.host_address, card.device, card.bytes).copy(card.device, card.back_address, 1));
    EXPECT_EQ(wait(card, seq, 1500), kBusy); // after the first copy
    card.host.assign(card.bytes, 2);
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(card.back[0], 2);
}

TEST_F(VirtualPace, polling_memory_makes_progress) {
    set("SOFTGAUDI_PACE", "virtual:up:1,submit:2");
    Bench card;
    uint32_t flag = 0;
    const uint64_t address = card.map(&flag, sizeof flag);
    const uint64_t start = now(card);
    card.submit(kUp, card.up().message(address, 77));
    while (read_value(flag) == 0) { // the test's time limit ends it otherwise
    }
    EXPECT_EQ(read_value(flag), 77u);
    EXPECT_EQ(now(card) - start, 1'002'000u);
}

TEST_F(VirtualPace, times_of_another_monotonic_clock_do_not_stop_it) GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    set("SOFTGAUDI_PACE", "virtual:up:1");
    Bench card;
    uint32_t flag = 0;
    const uint64_t address = card.map(&flag, sizeof flag);
    const uint64_t start = now(card);
    clock().next_look_ns = clock().processes[0].quiet_ns = UINT64_MAX / 2;
    card.submit(kUp, card.up().message(address, 77));
    while (read_value(flag) == 0) { // the test's time limit ends it otherwise
    }
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

TEST_F(VirtualPace, polling_information_makes_progress) {
    set("SOFTGAUDI_PACE", "virtual:up:1");
    Bench card;
    const uint64_t start = now(card);
    card.submit(kUp, card.up());
    while (!hlthunk_is_device_idle(card.fd)) {
    }
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

TEST_F(VirtualPace, stream_continues_when_its_fence_opens) {
    set("SOFTGAUDI_PACE", "virtual:down:1,up:2");
    Bench card;
    hlthunk_sync_manager_info sync{};
    ASSERT_EQ(hlthunk_get_sync_manager_info(card.fd, 0, &sync), 0);
    const uint32_t object = sync.first_available_sync_object, monitor = sync.first_available_monitor;
    const uint64_t start = now(card);
    Packets waits;
    waits.monitor(monitor, object, 1, fence_register(kDown), 1)
        .fence()
        .copy(card.host_address, card.device, card.bytes);
    const uint64_t second = card.submit(kDown, waits);
    const uint64_t first = card.submit(kUp, card.up().add_object(object, 1));
    EXPECT_EQ(card.wait(second), 0);
    EXPECT_EQ(now(card) - start, 1'500'000u);
    EXPECT_EQ(card.wait(first), 0);
}

TEST_F(VirtualPace, fence_opened_by_another_thread_ends_the_wait) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    hlthunk_sync_manager_info sync{};
    ASSERT_EQ(hlthunk_get_sync_manager_info(card.fd, 0, &sync), 0);
    const uint32_t object = sync.first_available_sync_object;
    const uint64_t parked = card.submit(
        kDown, Packets().monitor(sync.first_available_monitor, object, 1, fence_register(kDown), 1).fence());
    const uint64_t opener = card.place(card.down().add_object(object, 1));
    std::atomic<bool> waiting{false};
    std::thread later([&] {
        waiting.wait(false);
        std::array chunks = {Card::chunk(kDown + 1, opener, 24 + 8)};
        uint64_t seq = 0;
        EXPECT_EQ(card.try_submit(chunks, seq), 0);
    });
    waiting = true;
    waiting.notify_one();
    EXPECT_EQ(card.wait(parked), 0);
    later.join();
}

TEST_F(VirtualPace, interrupt_comes_at_its_time) {
    set("SOFTGAUDI_PACE", "virtual:up:1");
    Bench card;
    uint64_t flag = 0;
    const uint64_t address = card.map(&flag, sizeof flag);
    const uint64_t start = now(card);
    card.submit(kUp, card.up().message(address, 5).message(kCfg + 0x4C17000, 257));
    uint32_t status = 99;
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &flag, 5, 257, 200, &status), 0);
    EXPECT_EQ(status, kBusy);
    EXPECT_EQ(now(card) - start, 200'000u);
    EXPECT_EQ(hlthunk_wait_for_interrupt(card.fd, &flag, 5, 257, kForever, &status), 0);
    EXPECT_EQ(status, kCompleted);
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

TEST_F(VirtualPace, submission_timestamps_use_the_virtual_clock) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    const uint64_t start = now(card);
    const uint64_t first = card.submit(kDown, card.down(), kTimestamp);
    const uint64_t second = card.submit(kDown, card.down(), kTimestamp);
    EXPECT_EQ(card.wait(second), 0);
    uint32_t status = 99;
    uint64_t first_at = 0, second_at = 0;
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, first, 0, &status, &first_at), 0);
    EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, second, 0, &status, &second_at), 0);
    EXPECT_EQ(first_at - start, 1'000'000u);
    EXPECT_EQ(second_at - start, 2'000'000u);
}

TEST_F(VirtualPace, full_window_waits_for_the_oldest_submission) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card(nullptr, 1000);
    const uint64_t buffer = card.place(card.down());
    const uint64_t start = now(card);
    uint64_t seq = 0;
    for (uint64_t n = 1; n <= 200; ++n) {
        std::array chunks = {Card::chunk(kDown, buffer, 24)};
        ASSERT_EQ(card.try_submit(chunks, seq), 0);
        ASSERT_EQ(now(card) - start, n <= 64 ? 0 : (n - 64) * 1000) << n;
    }
    EXPECT_EQ(card.wait(seq), 0);
    EXPECT_EQ(now(card) - start, 200'000u);
}

TEST_F(VirtualPace, second_card_has_the_same_clock) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench first("0000:19:00.0"), second("0000:1a:00.0");
    const uint64_t start = now(first);
    EXPECT_EQ(now(second), start);
    const uint64_t one = first.submit(kDown, first.down()), other = second.submit(kDown, second.down());
    EXPECT_EQ(first.wait(one), 0);
    EXPECT_EQ(second.wait(other), 0);
    EXPECT_EQ(now(first) - start, 1'000'000u); // each card has its own links
    EXPECT_EQ(now(second) - start, 1'000'000u);
}

TEST_F(VirtualPace, pipeline_over_two_cards_overlaps) {
    set("SOFTGAUDI_PACE", "virtual:down:1,up:1");
    constexpr uint32_t kPieces = 8, kPiece = 100'000;
    Card first("0000:19:00.0"), second("0000:1a:00.0");
    auto sent = pattern(kPieces * kPiece);
    std::vector<unsigned char> staging(sent.size()), received(sent.size());
    const uint64_t source = first.memory(), target = second.memory();
    first.run(kDown, Packets().copy(first.map(sent), source, kPieces * kPiece));
    const uint64_t out = first.map(staging), in = second.map(staging);
    const uint64_t start = now(first);
    std::array<uint64_t, kPieces> ups{};
    for (uint32_t i = 0; i < kPieces; ++i)
        ups.at(i) = first.submit(kUp, Packets().copy(source + i * kPiece, out + i * kPiece, kPiece));
    uint64_t last = 0;
    for (uint32_t i = 0; i < kPieces; ++i) {
        EXPECT_EQ(first.wait(ups.at(i)), 0);
        last = second.submit(kDown, Packets().copy(in + i * kPiece, target + i * kPiece, kPiece));
    }
    EXPECT_EQ(second.wait(last), 0);
    EXPECT_EQ(now(first) - start, (kPieces + 1) * kPiece);
    second.run(kUp, Packets().copy(target, second.map(received), kPieces * kPiece));
    EXPECT_EQ(received, sent);
}

/// Completion times of submissions of random sizes on five queues that compete for three links.
std::vector<uint64_t> contended_run(uint32_t seed) {
    Bench card(nullptr, 100'000);
    std::minstd_rand random(seed);
    const uint64_t start = now(card);
    std::vector<uint64_t> seqs, times;
    for (int i = 0; i < 40; ++i) {
        Packets packets;
        for (auto n = random() % 3 + 1; n > 0; --n) {
            const auto size = static_cast<uint32_t>(random() % 5000 + 1);
            switch (random() % 3) {
            case 0:
                packets.copy(card.host_address, card.device, size);
                break;
            case 1:
                packets.copy(card.device, card.back_address, size);
                break;
            default:
                packets.copy(card.device, card.other, size);
            }
        }
        static constexpr std::array<uint32_t, 5> queues = {0, 1, 4, 8, 48};
        seqs.push_back(card.submit(queues.at(random() % queues.size()), packets, kTimestamp));
        if (random() % 4 == 0) {
            EXPECT_EQ(card.wait(seqs.at(random() % seqs.size())), 0);
        }
    }
    for (const uint64_t seq : seqs) {
        uint32_t status = 99;
        uint64_t at = 0;
        EXPECT_EQ(hlthunk_wait_for_cs_with_timestamp(card.fd, seq, kForever, &status, &at), 0);
        times.push_back(at - start);
    }
    return times;
}

TEST_F(VirtualPace, contention_takes_the_same_time_in_twenty_runs) {
    set("SOFTGAUDI_PACE", "virtual:down:2,up:1,card:5,submit:0.7");
    const std::vector<uint64_t> once = contended_run(1);
    for (int run = 0; run < 19; ++run)
        ASSERT_EQ(contended_run(1), once) << run;
    EXPECT_NE(contended_run(2), once);
}

TEST_F(VirtualPace, second_process_has_the_same_clock) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card("0000:19:00.0");
    card.run(kDown, card.down());
    const uint64_t here = now(card);
    Child child([here](int) {
        const int control = hlthunk_open_control(0, nullptr);
        hlthunk_time_sync_info info{};
        return control >= 0 && hlthunk_get_time_sync_info(control, &info) == 0 && info.device_time == here ? 0 : 1;
    });
    EXPECT_EQ(child.join(), 0);
}

TEST_F(VirtualPace, killed_process_that_nobody_waited_for_does_not_stop_it) GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    Bench card;
    const uint64_t start = now(card);
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t ended{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
    auto &entry = clock().processes.back(); // as if it had been killed with a stream that runs
    entry.running = entry.acting = 1;
    entry.pid = child;
    card.run(kDown, card.down());
    EXPECT_EQ(now(card) - start, 1'000'000u);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(VirtualPace, close_ends_running_work) {
    set("SOFTGAUDI_PACE", "virtual:down:1");
    {
        Bench card;
        for (int i = 0; i < 5; ++i)
            card.submit(kDown + static_cast<uint32_t>(i) % 4, card.down());
    }
    Bench card;
    const uint64_t start = now(card);
    card.run(kDown, card.down());
    EXPECT_EQ(now(card) - start, 1'000'000u);
}

} // namespace
