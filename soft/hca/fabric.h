// SPDX-License-Identifier: BSD-3-Clause
// The shared file of a fabric as this process sees it: table entries, queue memory, liveness of processes, and cleanup
// after dead ones.
#pragma once

#include "gaudi/store.h"
#include "state.h"

#include <cerrno>
#include <memory>
#include <string>

namespace softhca {

using softgaudi::File;

class Fabric {
public:
    /// Null, with errno, when the file cannot be set up.
    static std::unique_ptr<Fabric> open(const std::string &dir);

    State &state() const { return *m_state; }
    const std::string &dir() const { return m_dir; }

    /// Registers this process in the fabric; false, with errno, when the table is full or the lock fails.
    bool join();
    uint32_t self() const { return m_self; } // index in the table of processes
    ProcessEntry &process() const { return m_state->processes.entries[m_self]; }

    /// Creates an entry in `table`; `fill` initialises it and may refuse with an errno. Null, with errno, on failure.
    template <class T, size_t N, unsigned Bits, class Fill>
    T *take(Table<T, N, Bits> &table, Fill fill) {
        const Lock lock(m_state->tables);
        T *entry = free_place(table);
        if (!entry && reclaim())
            entry = free_place(table);
        if (!entry) {
            errno = ENOMEM;
            return nullptr;
        }
        if (!entry->mutex_made) {
            entry->mutex.init();
            entry->mutex_made = true;
        }
        entry->process = m_self;
        const auto index = static_cast<uint32_t>(entry - table.entries.data());
        entry->uses = entry->uses % table.kMaxUses + 1;
        const uint32_t id = entry->uses << table.kIndexBits | index;
        if (const int error = fill(*entry, id)) {
            errno = error;
            return nullptr;
        }
        entry->id.store(id, std::memory_order_seq_cst);
        return entry;
    }

    /// The lock that `fill` above runs with.
    auto &tables() const GAUDI_RETURNS_LOCK(m_state->tables) { return m_state->tables; }

    /// Allocates zeroed queue memory.
    bool allocate(size_t bytes, Extent &extent) GAUDI_REQUIRES(m_state->tables);
    void release(Extent &extent) GAUDI_REQUIRES(m_state->tables);
    unsigned char *memory(const Extent &extent) const;

    // ---- destruction of objects
    void destroy(ContextEntry &entry) GAUDI_EXCLUDES(m_state->tables);
    void destroy(ChannelEntry &entry) GAUDI_EXCLUDES(m_state->tables);
    void destroy(CqEntry &entry) GAUDI_EXCLUDES(m_state->tables);
    void destroy(SrqEntry &entry) GAUDI_EXCLUDES(m_state->tables);
    void destroy(QpEntry &entry) GAUDI_EXCLUDES(m_state->tables);
    void destroy(MrEntry &entry) GAUDI_EXCLUDES(m_state->tables);

    std::string context_fifo(uint32_t id) const;
    std::string channel_fifo(uint32_t id) const;

    /// Whether the process of this entry still runs the program that registered.
    bool is_alive(uint32_t process) const;
    /// Called in the child of a fork: the registration belongs to the parent alone.
    void close_place() { m_place = File(); }

private:
    Fabric(std::string dir, State *state, File file) : m_dir(std::move(dir)), m_state(state), m_file(std::move(file)) {}

    template <class T, size_t N, unsigned Bits>
    T *free_place(Table<T, N, Bits> &table) {
        for (size_t i = 0; i < N; ++i) {
            const size_t at = (table.next + i) % N;
            if (table.entries[at].id.load(std::memory_order_acquire) == 0) {
                table.next = static_cast<uint32_t>((at + 1) % N);
                return &table.entries[at];
            }
        }
        return nullptr;
    }
    /// Frees the entries of dead processes; true when there were any.
    bool reclaim() GAUDI_REQUIRES(m_state->tables);
    void clear_entry(ContextEntry &entry) GAUDI_REQUIRES(m_state->tables);
    void clear_entry(ChannelEntry &entry) GAUDI_REQUIRES(m_state->tables);
    void clear_entry(CqEntry &entry) GAUDI_REQUIRES(m_state->tables);
    void clear_entry(SrqEntry &entry) GAUDI_REQUIRES(m_state->tables);
    void clear_entry(QpEntry &entry) GAUDI_REQUIRES(m_state->tables);
    void clear_entry(MrEntry &entry) GAUDI_REQUIRES(m_state->tables);
    void wait_for_copies(uint32_t key);
    /// Makes the engines close the dma-bufs of deregistered regions.
    void wake_engines();

    std::string m_dir;
    State *m_state;
    File m_file;
    File m_place; // holds a lock for as long as this program runs
    uint32_t m_self = 0;
};

} // namespace softhca
