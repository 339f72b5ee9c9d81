// SPDX-License-Identifier: BSD-3-Clause
#include "fabric.h"

#include "os/format.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

namespace softhca {
namespace {

/// The byte past the end of the file that a registered process locks.
uint64_t place_byte(uint32_t process) { return kFileBytes + process; }

} // namespace

std::unique_ptr<Fabric> Fabric::open(const std::string &dir) {
    const std::string path = gaudi::os::format("{}/fabric", dir);
    void *memory = softgaudi::map_shared(path, kFileBytes, [](void *fresh) {
        auto *state = static_cast<State *>(fresh);
        state->tables.init();
        state->atomics.init();
        state->link.init();
        state->magic.store(State::kMagic, std::memory_order_release);
    });
    if (!memory)
        return nullptr;
    madvise(memory, kFileBytes, MADV_DONTDUMP);
    auto *state = static_cast<State *>(memory);
    if (state->magic.load(std::memory_order_acquire) != State::kMagic) {
        errno = EPROTO; // created by another version
        return nullptr;
    }
    File file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    // A full tmpfs must be an error here, not a SIGBUS later.
    if (!file || fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, sizeof(State)) != 0)
        return nullptr;
    return std::unique_ptr<Fabric>(new Fabric(dir, state, std::move(file)));
}

bool Fabric::join() {
    {
        const Lock lock(m_state->tables);
        reclaim();
    }
    const ProcessEntry *entry = take(m_state->processes, [&](ProcessEntry &fresh, uint32_t) {
        m_self = static_cast<uint32_t>(&fresh - m_state->processes.entries.data());
        m_place = softgaudi::reopen(m_file.get());
        if (!m_place || !softgaudi::lock_byte(m_place.get(), place_byte(m_self)))
            return errno;
        fresh.pid.store(getpid());
        for (auto &touched : fresh.touching)
            touched.store(0);
        return 0;
    });
    return entry != nullptr;
}

bool Fabric::is_alive(uint32_t process) const {
    return m_state->processes.entries[process].id.load() != 0 &&
           softgaudi::is_byte_locked(m_file.get(), place_byte(process));
}

bool Fabric::allocate(size_t bytes, Extent &extent) {
    const auto count = static_cast<uint32_t>((bytes + kUnit - 1) / kUnit);
    extent = {};
    if (count == 0)
        return true;
    auto &used = m_state->units_used;
    uint32_t run = 0;
    for (uint32_t unit = 0; unit < kUnits; ++unit) {
        run = (used[unit / 64] >> unit % 64 & 1) != 0 ? 0 : run + 1;
        if (run != count)
            continue;
        extent = {unit + 1 - count, count};
        if (fallocate(m_file.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(kQueueMemory + extent.first * kUnit),
                      static_cast<off_t>(count * kUnit)) != 0) {
            extent = {};
            return false;
        }
        for (uint32_t i = extent.first; i <= unit; ++i)
            used[i / 64] |= uint64_t{1} << i % 64;
        return true;
    }
    return false;
}

void Fabric::release(Extent &extent) {
    if (extent.count == 0)
        return;
    fallocate(m_file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(kQueueMemory + extent.first * kUnit), static_cast<off_t>(extent.count * kUnit));
    for (uint32_t i = extent.first; i < extent.first + extent.count; ++i)
        m_state->units_used[i / 64] &= ~(uint64_t{1} << i % 64);
    extent = {};
}

unsigned char *Fabric::memory(const Extent &extent) const {
    return reinterpret_cast<unsigned char *>(m_state) + kQueueMemory + extent.first * kUnit;
}

std::string Fabric::context_fifo(uint32_t id) const { return gaudi::os::format("{}/events-{:x}", m_dir, id); }

std::string Fabric::channel_fifo(uint32_t id) const { return gaudi::os::format("{}/channel-{:x}", m_dir, id); }

// ---- destruction of objects: clearing the id first keeps other processes from starting to use one

void Fabric::clear_entry(ContextEntry &entry) { unlink(context_fifo(entry.id.exchange(0)).c_str()); }

void Fabric::clear_entry(ChannelEntry &entry) { unlink(channel_fifo(entry.id.exchange(0)).c_str()); }

void Fabric::clear_entry(CqEntry &entry) {
    const Lock lock(entry.mutex);
    entry.id.store(0);
    release(entry.extent);
}

void Fabric::clear_entry(SrqEntry &entry) {
    const Lock lock(entry.mutex);
    entry.id.store(0);
    release(entry.ring.extent);
}

void Fabric::clear_entry(QpEntry &entry) {
    const Lock lock(entry.mutex);
    entry.id.store(0);
    release(entry.ring.extent);
}

void Fabric::clear_entry(MrEntry &entry) {
    if (entry.id.exchange(0) != kClosing)
        m_state->devices[entry.device].regions.fetch_sub(1);
}

void Fabric::destroy(ContextEntry &entry) {
    const Lock lock(m_state->tables);
    clear_entry(entry);
}

void Fabric::destroy(ChannelEntry &entry) {
    const Lock lock(m_state->tables);
    clear_entry(entry);
}

void Fabric::destroy(CqEntry &entry) {
    const Lock lock(m_state->tables);
    clear_entry(entry);
}

void Fabric::destroy(SrqEntry &entry) {
    const Lock lock(m_state->tables);
    clear_entry(entry);
}

void Fabric::destroy(QpEntry &entry) {
    const Lock lock(m_state->tables);
    clear_entry(entry);
}

void Fabric::destroy(MrEntry &entry) {
    const uint32_t key = entry.id.load();
    {
        // The key is invalid at once, but the entry is free only when no engine moves its bytes.
        const Lock lock(m_state->tables);
        entry.id.store(kClosing, std::memory_order_seq_cst);
        m_state->devices[entry.device].regions.fetch_sub(1);
    }
    wait_for_copies(key);
    const bool imported = entry.imported.load(std::memory_order_seq_cst) != 0;
    entry.id.store(0, std::memory_order_seq_cst);
    if (imported)
        wake_engines();
}

void Fabric::wake_engines() {
    for (ProcessEntry &process : m_state->processes.entries) {
        if (process.id.load() != 0)
            process.wake.signal();
    }
}

void Fabric::wait_for_copies(uint32_t key) {
    // An engine touches a region for one piece of a copy. The limit is for an engine that is stopped in the middle.
    const uint64_t deadline = monotonic_ns() + 2'000'000'000;
    for (ProcessEntry &process : m_state->processes.entries) {
        for (const auto &touched : process.touching) {
            while (process.id.load() != 0 && touched.load(std::memory_order_seq_cst) == key &&
                   monotonic_ns() < deadline && (kill(process.pid.load(), 0) == 0 || errno == EPERM))
                sched_yield();
        }
    }
}

bool Fabric::reclaim() {
    bool any = false, imported = false;
    for (ProcessEntry &process : m_state->processes.entries) {
        const auto index = static_cast<uint32_t>(&process - m_state->processes.entries.data());
        if (process.id.load() == 0 || is_alive(index))
            continue;
        const auto sweep = [&](auto &table) {
            m_state->tables.assert_held();
            for (auto &entry : table.entries) {
                if (entry.id.load() != 0 && entry.process == index)
                    clear_entry(entry);
            }
        };
        sweep(m_state->qps);
        sweep(m_state->srqs);
        sweep(m_state->cqs);
        for (const MrEntry &region : m_state->mrs.entries)
            imported |= region.id.load() != 0 && region.process == index && region.imported.load() != 0;
        sweep(m_state->mrs);
        sweep(m_state->channels);
        sweep(m_state->contexts);
        process.id.store(0);
        any = true;
    }
    if (imported)
        wake_engines();
    return any;
}

} // namespace softhca
