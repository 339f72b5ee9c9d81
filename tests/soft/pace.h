// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the tests of modelled time.
#pragma once

#include "soft.h"

namespace soft {

/// Nanoseconds on the model's clock.
inline uint64_t now(const Card &card) {
    hlthunk_time_sync_info info{};
    EXPECT_EQ(hlthunk_get_time_sync_info(card.fd, &info), 0);
    return info.device_time;
}

/// A card, host and card memory, and copies between the two.
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

/// Reads a value that the card may write at any time.
template <class Value>
Value read_value(const Value &value) {
    return *const_cast<const volatile Value *>(&value);
}

} // namespace soft
