// SPDX-License-Identifier: BSD-3-Clause
// The other processes of the fabric, and the engine's imports: dma-bufs of regions that it has open for copies.
#pragma once

#include "fabric.h"
#include "os/mutex.h"

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>

namespace softhca {

class Peers {
public:
    explicit Peers(Fabric &fabric) : m_fabric(fabric) {}

    /// Whether the process still runs. Cheap enough for every message.
    bool is_alive(uint32_t process) const;
    /// The same after an access to its memory failed: a dying process loses its memory before its locks.
    bool is_dying(uint32_t process) const;

    /// The dma-buf of a region, opened by this process.
    class Import {
    public:
        Import(uint32_t key, File file, const MrEntry &region);
        ~Import();
        Import(const Import &) = delete;
        Import &operator=(const Import &) = delete;

        uint32_t key() const { return m_key; }
        uint32_t process() const { return m_process; }
        int fd() const { return m_file.get(); }
        /// The region's bytes, as an argument for system calls; null where they cannot be mapped.
        const unsigned char *bytes() const { return m_map ? m_map + m_begin : nullptr; }

    private:
        const uint32_t m_key, m_process; // of the region and of its owner
        const File m_file;
        size_t m_begin = 0, m_length = 0; // offset of the region in the mapping, length of the mapping
        unsigned char *m_map = nullptr;
    };
    using ImportPtr = std::shared_ptr<const Import>;

    /// Opens the dma-buf of a region; only for the engine, which must have marked the region as touched. Null on
    /// failure.
    ImportPtr import(MrEntry &region, uint32_t key);
    /// Whether a dma-buf of another process was ever opened: that process wakes the engine when it deregisters.
    bool has_foreign_imports() const { return m_from_others.load(std::memory_order_relaxed); }

    // ---- for any thread; a running copy keeps its import
    /// Closes the dma-bufs of deregistered regions.
    void close_deregistered();
    /// Closes those of dead processes too.
    void close_deregistered_and_dead();

private:
    template <class Stale>
    void close_if(Stale stale);

    Fabric &m_fabric;
    std::atomic<bool> m_from_others{false};
    gaudi::os::Mutex m_mutex{Rank::imports};
    std::list<ImportPtr>
        m_imports GAUDI_GUARDED_BY(m_mutex); // most recently used first; bounded, they keep memory of others alive
};

} // namespace softhca
