// SPDX-License-Identifier: BSD-3-Clause
#include "overtaking_bus.h"

#include <chrono>
#include <thread>
#include <utility>

namespace softgaudi {

MaybeTrap OvertakingBus::release() {
    const auto held = std::exchange(m_held, {});
    return held ? m_bus.move(*held) : MaybeTrap();
}

size_t OvertakingBus::fetch(uint64_t address, std::span<unsigned char> out) {
    return release() ? 0 : m_bus.fetch(address, out); // the copy may have written these commands
}

MaybeTrap OvertakingBus::move(const Transfer &transfer) {
    if (auto trap = release())
        return trap;
    if (!m_card.is_message_early())
        return m_bus.move(transfer);
    m_held = transfer;
    return {};
}

MaybeTrap OvertakingBus::fill(uint64_t destination, uint64_t size, uint64_t value) {
    const auto trap = release();
    return trap ? trap : m_bus.fill(destination, size, value);
}

MaybeTrap OvertakingBus::store(uint64_t address, uint64_t value, unsigned size) {
    if (auto trap = m_bus.store(address, value, size))
        return trap;
    if (m_held && !m_card.clock().is_virtual())
        std::this_thread::sleep_for(std::chrono::microseconds(200)); // the host has time to see it
    return release();
}

MaybeTrap OvertakingBus::store_own_register(uint32_t offset, uint32_t value) {
    const auto trap = release();
    return trap ? trap : m_bus.store_own_register(offset, value);
}

MaybeTrap OvertakingBus::fence(bool lower, unsigned id, uint32_t target, uint32_t decrement) {
    const auto trap = release();
    return trap ? trap : m_bus.fence(lower, id, target, decrement);
}

} // namespace softgaudi
