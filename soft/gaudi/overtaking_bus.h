// SPDX-License-Identifier: BSD-3-Clause
// The quirk "early_flag": rarely, and only on a card under load, the message after a copy arrives before the data of the copy,
// in spite of its barrier.
#pragma once

#include "card.h"
#include "interpreter.h"

#include <optional>

namespace softgaudi {

/// Holds a copy back until the message after it is stored.
class OvertakingBus final : public Bus {
public:
    OvertakingBus(Bus &bus, Card &card) : m_bus(bus), m_card(card) {}

    size_t fetch(uint64_t address, std::span<unsigned char> out) override;
    MaybeTrap move(const Transfer &transfer) override;
    MaybeTrap fill(uint64_t destination, uint64_t size, uint64_t value) override;
    MaybeTrap store(uint64_t address, uint64_t value, unsigned size) override;
    MaybeTrap store_own_register(uint32_t offset, uint32_t value) override;
    uint64_t message_base(unsigned base) override { return m_bus.message_base(base); }
    MaybeTrap fence(bool lower, unsigned id, uint32_t target, uint32_t decrement) override;
    uint64_t timestamp() override { return m_bus.timestamp(); }
    bool cancelled() override { return m_bus.cancelled(); }
    void count_packet() override { m_bus.count_packet(); }

    /// Makes the copy that is held back, if any.
    MaybeTrap release();

private:
    Bus &m_bus;
    Card &m_card;
    std::optional<Transfer> m_held;
};

} // namespace softgaudi
