// SPDX-License-Identifier: BSD-3-Clause
#include "sync_unit.h"

#include "host_memory.h"
#include "packets.h"

#include <unistd.h>

namespace softgaudi {

using packet::bits;

namespace {

// Registers of a sync manager, relative to its base.
constexpr uint64_t kSyncBase = 0x4100000, kSyncStep = 0x200000;
constexpr uint64_t kObjects = 0x0, kAddressLow = 0x8000, kAddressHigh = 0xA000, kData = 0xC000, kArm = 0xE000,
                   kConfig = 0x10000, kStatus = 0x12000, kStatusEnd = 0x14000;
constexpr uint64_t kQueueRegisters = 0x1E050, kQueueRegisterStep = 0x100;

constexpr uint64_t kDoorbell = 0x4C17000;
constexpr uint64_t kFenceRegister = 0x290; // in a queue manager: four fences of five command processors

constexpr uint32_t kObjectMax = 0x7FFF;
constexpr size_t kChain = 4096; // limit of triggered stores: monitors can trigger one another for ever

// A sync object in long mode is four objects of 15 bits each.
uint64_t long_value(const SyncManager &sync, uint32_t first) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < 4 && first + i < kSyncObjects; ++i)
        value |= uint64_t{sync.objects[first + i]} << (15 * i);
    return value;
}

void set_long_value(SyncManager &sync, uint32_t first, uint64_t value) {
    for (uint32_t i = 0; i < 4 && first + i < kSyncObjects; ++i)
        sync.objects[first + i] = static_cast<uint32_t>(value >> (15 * i)) & kObjectMax;
}

bool is_long(const Monitor &monitor) { return bits(monitor.config, 0, 1) != 0; }

uint32_t group_of(const Monitor &monitor) { return bits(monitor.config, 16, 4) << 8 | bits(monitor.arm, 0, 8); }

} // namespace

MaybeTrap SyncUnit::store(uint64_t address, uint64_t value, unsigned size) {
    m_card.assert_locked();
    m_pending.assign(1, {address, value, size, false});
    for (size_t done = 0; done < m_pending.size(); ++done) {
        if (done == kChain)
            return Trap{Trap::Kind::illegal_register, address, true};
        if (auto trap = store_one(m_pending[done]))
            return trap;
    }
    return {};
}

bool SyncUnit::load(const Place &place, uint64_t &value) {
    switch (place.kind) {
    case Place::Kind::host:
        return m_card.read_host(place, place.position, &value, sizeof value);
    case Place::Kind::block: {
        const auto view = m_card.blocks().view(m_card.context().id, place.handle);
        return view && view->engine->read(place.position, &value, sizeof value);
    }
    case Place::Kind::sram:
        return read_file(m_card.sram_file(), &value, sizeof value, place.position);
    case Place::Kind::buffer:
        return read_file(m_card.node_file(), &value, sizeof value, place.position);
    default:
        return false;
    }
}

MaybeTrap SyncUnit::store_one(Pending store) {
    const Place place = m_card.translate(store.address);
    if (place.kind == Place::Kind::nowhere || place.length < store.size)
        return Trap{Trap::Kind::page_fault, store.address, true};
    if (store.adds) {
        uint64_t before = 0;
        if (!load(place, before))
            return Trap{Trap::Kind::page_fault, store.address, true};
        store.value += before;
    }
    bool done = false;
    switch (place.kind) {
    case Place::Kind::host:
        done = m_card.store_host(place, store.value, store.size);
        break;
    case Place::Kind::block:
        if (const auto view = m_card.blocks().view(m_card.context().id, place.handle)) {
            const gaudi::os::MutexLock lock(m_card.blocks().sides());
            done = view->engine->write(place.position, &store.value, store.size) &&
                   (!view->outer || view->outer->write(place.position, &store.value, store.size));
        }
        break;
    case Place::Kind::sram:
        done = pwrite(m_card.sram_file(), &store.value, store.size, static_cast<off_t>(place.position)) ==
               static_cast<ssize_t>(store.size);
        break;
    case Place::Kind::buffer:
        done = pwrite(m_card.node_file(), &store.value, store.size, static_cast<off_t>(place.position)) ==
               static_cast<ssize_t>(store.size);
        break;
    case Place::Kind::registers:
        if (store.size != 4 || !store_register(place.position, static_cast<uint32_t>(store.value)))
            return Trap{Trap::Kind::illegal_register, store.address, true};
        done = true;
        break;
    case Place::Kind::nowhere:
        break;
    }
    if (!done)
        return Trap{Trap::Kind::page_fault, store.address, true};
    return {};
}

bool SyncUnit::store_register(uint64_t offset, uint32_t value) {
    if (offset % 4 != 0)
        return false;
    if (offset == kDoorbell) {
        m_card.fire_interrupt(value);
        return true;
    }
    if (const auto queue = queue_manager_at(offset)) {
        // A store to a fence adds to it; the other registers of a queue manager concern arbitration and have no effect
        // here.
        const uint64_t fence = offset % kQueueManagerBytes - kFenceRegister;
        if (fence < kFences * kProcessors * 4) {
            const auto index = static_cast<uint32_t>(fence / 4);
            auto &counters = m_card.context().fences.at(*queue / kStreams);
            counters.at(index % kProcessors).at(index / kProcessors) += value;
            m_card.wake_parked();
        }
        return true;
    }
    const uint64_t sync = offset - kSyncBase;
    if (sync / kSyncStep < kSyncManagers)
        return store_sync_manager(static_cast<uint32_t>(sync / kSyncStep), sync % kSyncStep, value);
    return false;
}

bool SyncUnit::store_sync_manager(uint32_t index, uint64_t offset, uint32_t value) {
    SyncManager &sync = m_card.context().sync.at(index);
    if (offset < kAddressLow) {
        set_object(sync, static_cast<uint32_t>((offset - kObjects) / 4), value);
        return true;
    }
    const auto monitor = static_cast<uint32_t>(offset % 0x2000 / 4);
    if (offset < kAddressHigh)
        sync.monitors.at(monitor).address_low = value;
    else if (offset < kData)
        sync.monitors.at(monitor).address_high = value;
    else if (offset < kArm)
        sync.monitors.at(monitor).data = value;
    else if (offset < kConfig)
        arm_monitor(sync, monitor, value);
    else if (offset < kStatus)
        sync.monitors.at(monitor).config = value;
    else if (offset < kStatusEnd)
        return false; // read-only
    else if (offset - kQueueRegisters < 9 * kQueueRegisterStep) {
        CompletionQueue &queue = sync.queues.at((offset - kQueueRegisters) % kQueueRegisterStep / 4);
        switch ((offset - kQueueRegisters) / kQueueRegisterStep) {
        case 0:
            queue.base_low = value;
            break;
        case 1:
            queue.base_high = value;
            break;
        case 2:
            queue.size_log2 = value;
            break;
        case 3:
            queue.producer = value;
            break;
        case 5:
            queue.message_low = value;
            break;
        case 6:
            queue.message_high = value;
            break;
        case 7:
            queue.message_data = value;
            break;
        case 8:
            queue.increment = value;
            break;
        default:
            return false;
        }
    } else {
        return false;
    }
    return true;
}

void SyncUnit::set_object(SyncManager &sync, uint32_t index, uint32_t value) {
    const uint32_t amount = bits(value, 0, 15);
    const bool add = bits(value, 31, 1) != 0;
    if (bits(value, 24, 1) != 0)
        set_long_value(sync, index, add ? long_value(sync, index) + amount : amount);
    else
        sync.objects.at(index) = (add ? sync.objects.at(index) + amount : amount) & kObjectMax;
    for (uint32_t i = 0; i < kMonitors; ++i)
        if (sync.monitors[i].armed && group_of(sync.monitors[i]) == index / 8)
            check_monitor(sync, i);
}

void SyncUnit::arm_monitor(SyncManager &sync, uint32_t index, uint32_t value) {
    Monitor &monitor = sync.monitors.at(index);
    monitor.arm = value;
    // In long mode the next three monitors only hold more bits of the first one's target.
    const uint32_t first = index & ~3u;
    monitor.armed = index == first || !is_long(sync.monitors.at(first));
    if (monitor.armed)
        check_monitor(sync, index);
}

bool SyncUnit::is_satisfied(const SyncManager &sync, uint32_t index) const {
    const Monitor &monitor = sync.monitors.at(index);
    const bool equal = bits(monitor.arm, 16, 1) != 0;
    const uint32_t first = group_of(monitor) * 8;
    if (first + 8 > kSyncObjects)
        return false;
    if (is_long(monitor)) {
        uint64_t wanted = 0;
        for (uint32_t i = 0; i < 4 && index + i < kMonitors; ++i)
            wanted |= uint64_t{bits(sync.monitors[index + i].arm, 17, 15)} << (15 * i);
        const uint64_t value = long_value(sync, first);
        return equal ? value == wanted : value >= wanted;
    }
    const uint32_t unwatched = bits(monitor.arm, 8, 8);
    const uint32_t wanted = bits(monitor.arm, 17, 15);
    for (uint32_t i = 0; i < 8; ++i) {
        if ((unwatched >> i & 1) != 0)
            continue;
        const uint32_t value = sync.objects[first + i];
        if (equal ? value != wanted : value < wanted)
            return false;
    }
    return true;
}

void SyncUnit::check_monitor(SyncManager &sync, uint32_t index) {
    if (is_satisfied(sync, index)) {
        sync.monitors.at(index).armed = false;
        fire_monitor(sync, index);
    }
}

void SyncUnit::fire_monitor(SyncManager &sync, uint32_t index) {
    const uint32_t writes = bits(sync.monitors.at(index).config, 5, 2) + 1;
    const bool queued = bits(sync.monitors.at(index).config, 4, 1) != 0;
    for (uint32_t i = 0; i < writes && index + i < kMonitors; ++i) {
        const Monitor &payload = sync.monitors.at(index + i);
        if (queued)
            push_completion(sync, payload);
        else
            m_pending.push_back({uint64_t{payload.address_high} << 32 | payload.address_low, payload.data, 4, false});
    }
}

/// Writes an entry into a completion queue and raises its interrupt.
void SyncUnit::push_completion(SyncManager &sync, const Monitor &monitor) {
    CompletionQueue &queue = sync.queues.at(monitor.address_low % kCompletionQueues);
    const uint64_t base = uint64_t{queue.base_high} << 32 | queue.base_low;
    if (queue.increment != 0) {
        m_pending.push_back({base, monitor.data, 8, true});
    } else {
        m_pending.push_back({base + queue.producer, monitor.data, 4, false});
        queue.producer = (queue.producer + 4) & ((1u << (queue.size_log2 & 31)) - 1);
    }
    const uint64_t doorbell = m_card.model().cfg_base + kDoorbell;
    m_pending.push_back({doorbell, queue.message_data, 4, false});
}

} // namespace softgaudi
