// SPDX-License-Identifier: BSD-3-Clause
// Steps shared by the tests of packets, submission, errors and information.
#pragma once

#include "soft.h"

#include <fstream>
#include <thread>

namespace soft {

inline constexpr uint64_t kSram = 0x1000FFFFFD000000;
inline constexpr uint64_t kSyncObjects = kCfg + 0x4100000;
inline constexpr uint32_t kObject = 512, kMonitor = 512; // free for programs; the driver uses those below 413 and 289
inline constexpr uint32_t kTimestampFlag = 0x20;

inline constexpr std::array<uint32_t, 8> kEdmaQueues = {8, 12, 48, 52, 84, 88, 120, 124};

/// Adds 1 to the fence at which a queue waits.
inline Packets opening(uint32_t queue) { return Packets().message(fence_register(queue), 1); }

/// The bytes at a device address.
inline std::vector<unsigned char> peek(Card &card, uint64_t address, size_t size, uint32_t queue = kUp) {
    std::vector<unsigned char> bytes(size);
    const uint64_t mapped = card.map(bytes);
    card.run(queue, Packets().copy(address, mapped, static_cast<uint32_t>(size)));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, mapped), 0);
    return bytes;
}

inline void poke(Card &card, uint64_t address, const void *data, size_t size) {
    std::vector<unsigned char> bytes(static_cast<const unsigned char *>(data),
                                     static_cast<const unsigned char *>(data) + size);
    const uint64_t mapped = card.map(bytes);
    card.run(kDown, Packets().copy(mapped, address, static_cast<uint32_t>(size)));
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, mapped), 0);
}

inline uint32_t hard_resets(int fd) {
    hlthunk_reset_count_info info{};
    EXPECT_EQ(hlthunk_get_reset_count_info(fd, &info), 0);
    return info.hard_reset_count;
}

/// The card's notifier; released by the destructor.
class Notifier {
public:
    explicit Notifier(const Card &card) : m_card(card.fd), handle(hlthunk_notifier_create(card.fd)) {
        EXPECT_GE(handle, 0) << strerror(errno);
    }
    ~Notifier() { EXPECT_EQ(hlthunk_notifier_release(m_card, handle), 0); }
    Notifier(const Notifier &) = delete;
    Notifier &operator=(const Notifier &) = delete;

    /// Events since the last call, 0 for none; waits for the first.
    uint64_t receive(uint32_t timeout_ms = UINT32_MAX) const {
        uint64_t events = 0, count = 0;
        EXPECT_EQ(hlthunk_notifier_recv(m_card, handle, &events, &count, 0, timeout_ms), 0);
        return count == 0 ? 0 : events;
    }

private:
    int m_card;

public:
    const int handle;
};

/// Waits until the thread sleeps in a system call.
inline void wait_until_asleep(const std::atomic<pid_t> &thread) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < give_up) {
        std::ifstream file("/proc/self/task/" + std::to_string(thread.load()) + "/stat");
        std::string text;
        std::getline(file, text);
        const size_t name_end = text.rfind(") ");
        if (thread.load() != 0 && name_end != std::string::npos && text[name_end + 2] == 'S')
            return;
        std::this_thread::yield();
    }
    FAIL() << "the thread never slept";
}

} // namespace soft
