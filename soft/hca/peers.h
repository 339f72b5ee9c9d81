// SPDX-License-Identifier: BSD-3-Clause
// Other processes of the fabric, and the dma-bufs of regions that the engine has open to copy from and to.
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

    /// Whether the process at that place lives. Cheap enough for every message.
    bool alive(uint32_t process) const;
    /// The same when its memory was found missing: a process loses that first when it dies.
    bool dying(uint32_t process) const;

    /// The dma-buf that a region was registered with, as this process has it open.
    class Import {
    public:
        Import(uint32_t key, File file, const MrEntry &region);
        ~Import();
        Import(const Import &) = delete;
        Import &operator=(const Import &) = delete;

        uint32_t key() const { return m_key; }
        uint32_t process() const { return m_process; }
        int fd() const { return m_file.get(); }
        /// The region's bytes, for the kernel to read; null where they cannot be mapped.
        const unsigned char *window() const { return m_map ? m_map + m_begin : nullptr; }

    private:
        const uint32_t m_key, m_process; // of the region, of its owner
        const File m_file;
        size_t m_begin = 0, m_length = 0; // of the region in the mapping, of the mapping
        unsigned char *m_map = nullptr;
    };
    using ImportPtr = std::shared_ptr<const Import>;

    /// For the engine alone, while it touches the region. Null when the dma-buf cannot be opened.
    ImportPtr import(MrEntry &region, uint32_t key);
    /// Whether a dma-buf of another process was ever opened: that process wakes the engine when it deregisters.
    bool imported_from_others() const { return m_from_others.load(std::memory_order_relaxed); }

    // ---- for any thread; a copy under way keeps what it uses
    /// Closes the dma-bufs whose regions were deregistered.
    void close_deregistered();
    /// And those of processes that ended.
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
