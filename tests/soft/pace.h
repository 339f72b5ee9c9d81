// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the model's time share.
#pragma once

#include "soft.h"

namespace soft {

/// Of the model's clock, in nanoseconds.
inline uint64_t now(const Card &card) {
    hlthunk_time_sync_info info{};
    EXPECT_EQ(hlthunk_get_time_sync_info(card.fd, &info), 0);
    return info.device_time;
}

/// A card, memory on both sides, and copies between them.
class Bench : public Card {
public:
    explicit Bench(const char *bus_id = nullptr, uint32_t size = 1'000'000)
        : Card(bus_id), bytes(size), host(size), back(size), device(memory(2 * kPage)), other(device + kPage),
          host_address(map(host)), back_address(map(back)) {}

    Packets down() const { return Packets().copy(host_address, device, bytes); }
    Packets up() const { return Packets().copy(device, back_address, bytes); }
    Packets across() const { return Packets().copy(device, other, bytes); }

    uint32_t bytes;
    std::vector<unsigned char> host, back;
    uint64_t device, other, host_address, back_address;
};

/// What a word shows now, to this thread, whoever wrote it.
template <class Word>
Word look(const Word &word) {
    return *const_cast<const volatile Word *>(&word);
}

} // namespace soft
