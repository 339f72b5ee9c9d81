// SPDX-License-Identifier: BSD-3-Clause
// SOFTGAUDI_PACE on the real clock, where a test can only check "not earlier", and null pace.
#include "pace.h"

#include <ctime>

using namespace soft;

namespace {

uint64_t monotonic() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

class RealPace : public SoftTest {};

TEST_F(RealPace, completion_is_not_before_the_link_time) {
    set("SOFTGAUDI_PACE", "down:0.1,up:0.05,card:0.2,submit:1000,map:3000");
    Bench card;
    const auto time = [&](auto work) {
        const uint64_t start = monotonic();
        work();
        return monotonic() - start;
    };
    std::vector<char> data(100);
    EXPECT_GE(time([&] { card.run(kDown, card.down()); }), 10'000'000u + 1'000'000);
    EXPECT_GE(time([&] { card.run(kUp, card.up()); }), 20'000'000u + 1'000'000);
    EXPECT_GE(time([&] { card.run(kOnCard, card.across()); }), 5'000'000u + 1'000'000);
    EXPECT_GE(time([&] { card.map(data); }), 3'000'000u);
}

TEST_F(RealPace, two_copies_down_share_the_link) {
    set("SOFTGAUDI_PACE", "down:0.1");
    Bench card;
    const uint64_t start = monotonic();
    const uint64_t first = card.submit(kDown, card.down()), second = card.submit(kDown + 1, card.down());
    EXPECT_EQ(card.wait(first), 0);
    EXPECT_EQ(card.wait(second), 0);
    EXPECT_GE(monotonic() - start, 20'000'000u);
}

TEST_F(RealPace, completion_flag_is_not_before_earlier_copies) {
    set("SOFTGAUDI_PACE", "up:0.05");
    Bench card;
    uint32_t flag = 0;
    const uint64_t address = card.map(&flag, sizeof flag);
    const uint64_t start = monotonic();
    const uint64_t seq = card.submit(kUp, card.up().message(address, 1));
    while (read_value(flag) == 0) {
    }
    EXPECT_GE(monotonic() - start, 20'000'000u);
    EXPECT_EQ(card.wait(seq), 0);
}

class NullPace : public SoftTest {};

TEST_F(NullPace, submission_completes_at_once_and_moves_nothing) {
    set("SOFTGAUDI_PACE", "null");
    Bench card;
    card.host = pattern(card.bytes);
    const uint64_t seq = card.submit(kDown, card.down());
    uint32_t status = 99;
    EXPECT_EQ(card.wait(seq, &status, 0), 0);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_COMPLETED});
    card.run(kUp, card.up());
    EXPECT_EQ(card.back, std::vector<unsigned char>(card.bytes, 0));
    card.run(kUp, Packets().fill(0x0101010101010101, card.back_address, 100));
    EXPECT_EQ(card.back, std::vector<unsigned char>(card.bytes, 0));
}

TEST_F(NullPace, copies_within_the_budget_move_bytes) {
    set("SOFTGAUDI_PACE", "null:1");
    Bench card(nullptr, kMiB / 2);
    std::ranges::copy(pattern(card.bytes), card.host.begin()); // in place, because it is mapped
    card.run(kDown, card.down());
    card.run(kUp, card.up());
    EXPECT_EQ(card.back, card.host);
    card.back.assign(card.bytes, 0);
    card.run(kUp, card.up());
    EXPECT_EQ(card.back, std::vector<unsigned char>(card.bytes, 0));
}

TEST_F(NullPace, completion_flags_are_written) {
    set("SOFTGAUDI_PACE", "null");
    Bench card;
    uint32_t flag = 0;
    const uint64_t address = card.map(&flag, sizeof flag);
    card.submit(kDown, card.down().message(address, 42));
    EXPECT_EQ(read_value(flag), 42u);
}

TEST_F(NullPace, bytes_that_are_not_moved_do_not_count_as_throughput) {
    set("SOFTGAUDI_PACE", "null:1");
    Bench card(nullptr, kMiB);
    card.submit(kDown, card.down());
    card.submit(kUp, card.up());
    hlthunk_pci_counters_info counters{};
    ASSERT_EQ(hlthunk_get_pci_counters_info(card.fd, &counters), 0);
    EXPECT_EQ(counters.rx_throughput, 1024u); // within the budget
    EXPECT_EQ(counters.tx_throughput, 0u);
}

TEST_F(NullPace, unmapped_address_is_an_error) {
    set("SOFTGAUDI_PACE", "null");
    Bench card;
    const uint64_t seq = card.submit(kDown, Packets().copy(0x1234, card.device, 100));
    uint32_t status = 99;
    EXPECT_EQ(card.wait(seq, &status), -EIO);
    EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_ABORTED});
}

} // namespace
