// SPDX-License-Identifier: BSD-3-Clause
// The rings that hold pinned pages, without a card.
#include "pinned_memory.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace softgaudi;

namespace {

constexpr size_t kSize = 1 << 20;

struct Pages {
    Pages()
        : data(static_cast<char *>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        std::fill_n(data, kSize, 'a');
    }
    ~Pages() { munmap(data, kSize); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;
    uint64_t address() const { return reinterpret_cast<uint64_t>(data); }

    char *data;
};

TEST(PinnedMemory, rings_are_added_for_more_slots_than_one_has) {
    PinnedMemory pins;
    const Pages pages;
    std::string why;
    std::vector<Pin> all;
    for (uint32_t i = 0; i < 2 * Uring::kSlots + 1; ++i) {
        const auto pin = pins.pin(pages.address() + i % 16 * 4096, 4096, why);
        ASSERT_TRUE(pin) << i << why;
        all.push_back(*pin);
    }
    EXPECT_EQ(all[Uring::kSlots - 1].share, all[0].share);
    EXPECT_NE(all[Uring::kSlots].share, all[0].share);
    EXPECT_NE(all.back().share, all[Uring::kSlots].share);
    char byte = 0;
    EXPECT_TRUE(pins.find(getpid(), all.back())->read(all.back().slot, pages.address(), &byte, 1));
    EXPECT_EQ(byte, 'a');
    for (const Pin &pin : all)
        pins.release(getpid(), pin, 4096);
    EXPECT_EQ(pins.pin(pages.address(), 4096, why)->share, all[0].share);
}

TEST(PinnedMemory, released_slot_and_bytes_outside_are_refused) {
    PinnedMemory pins;
    const Pages pages;
    std::string why;
    const Pin pin = pins.pin(pages.address(), 8192, why).value();
    const auto ring = pins.find(getpid(), pin);
    std::vector<char> bytes(8193);
    EXPECT_TRUE(ring->read(pin.slot, pages.address(), bytes.data(), 8192));
    EXPECT_FALSE(ring->read(pin.slot, pages.address(), bytes.data(), 8193));
    EXPECT_FALSE(ring->write(pin.slot, pages.address() + 8192, bytes.data(), 1));
    EXPECT_TRUE(ring->write(pin.slot, pages.address(), bytes.data(), 8192)) << "nothing of the failed write is left";
    pins.release(getpid(), pin, 8192);
    EXPECT_FALSE(ring->read(pin.slot, pages.address(), bytes.data(), 1));
}

TEST(PinnedMemory, death_of_another_user_leaves_the_ring_working) {
    PinnedMemory pins;
    const Pages pages;
    std::string why;
    const Pin pin = pins.pin(pages.address(), kSize, why).value();
    const auto ring = pins.find(getpid(), pin);
    std::vector<char> back(kSize);
    for (int round = 0; round < 50; ++round) {
        int ready[2];
        ASSERT_EQ(pipe(ready), 0);
        const pid_t child = fork();
        if (child == 0) {
            PinnedMemory own;
            const auto theirs = own.find(getppid(), pin);
            const int file = memfd_create("test", MFD_CLOEXEC);
            for (char byte = 0; theirs && write(ready[1], &byte, 1) == 1;) {
                theirs->read(pin.slot, pages.address(), back.data(), 4096);
                theirs->write_to_file(pin.slot, pages.address(), kSize, file, 0);
            }
            _exit(1);
        }
        char byte = 0;
        close(ready[1]);
        for (int i = 0; i < 3 + round % 5; ++i)
            ASSERT_EQ(read(ready[0], &byte, 1), 1);
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        close(ready[0]);
        back.assign(kSize, 0);
        ASSERT_TRUE(ring->read(pin.slot, pages.address(), back.data(), kSize)) << round;
        ASSERT_EQ(back, std::vector<char>(kSize, 'a')) << round;
    }
}

TEST(PinnedMemory, ring_of_a_process_that_is_gone_is_not_found) {
    PinnedMemory pins;
    const Pages pages;
    std::string why;
    const Pin pin = pins.pin(pages.address(), 4096, why).value();
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(pins.find(child, pin), nullptr);
    EXPECT_EQ(pins.find(getpid(), {pin.share, pin.tag + 1, pin.slot}), nullptr);
}

} // namespace
