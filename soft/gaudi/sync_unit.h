// SPDX-License-Identifier: BSD-3-Clause
// Stores by packets: to memory, and to registers with an effect (sync objects, monitors, completion queues, fences, the
// interrupt doorbell).
#pragma once

#include "card.h"
#include "interpreter.h"

#include <vector>

namespace softgaudi {

class SyncUnit {
public:
    explicit SyncUnit(Card &card) : m_card(card) {}

    /// Executes a store and every store that it triggers. Needs the card's lock.
    MaybeTrap store(uint64_t address, uint64_t value, unsigned size);

private:
    struct Pending {
        uint64_t address;
        uint64_t value;
        unsigned size;
        bool adds = false; // adds to the value in memory
    };

    MaybeTrap store_one(Pending store) GAUDI_REQUIRES(m_card);
    bool load(const Place &place, uint64_t &value);
    bool store_register(uint64_t offset, uint32_t value) GAUDI_REQUIRES(m_card);
    bool store_sync_manager(uint32_t index, uint64_t offset, uint32_t value);
    void set_object(SyncManager &sync, uint32_t index, uint32_t value);
    void arm_monitor(SyncManager &sync, uint32_t index, uint32_t value);
    void check_monitor(SyncManager &sync, uint32_t index);
    bool is_satisfied(const SyncManager &sync, uint32_t index) const;
    void fire_monitor(SyncManager &sync, uint32_t index);
    void push_completion(SyncManager &sync, const Monitor &monitor);

    Card &m_card;
    std::vector<Pending> m_pending;
};

} // namespace softgaudi
