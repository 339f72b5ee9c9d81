// SPDX-License-Identifier: BSD-3-Clause
// Other processes of the fabric, and the descriptors of theirs that the engine uses. Only the engine's thread calls it.
#pragma once

#include "fabric.h"

#include <cstdint>
#include <list>

namespace softhca {

class Peers {
public:
    explicit Peers(Fabric &fabric) : m_fabric(fabric) {}

    /// Whether the process at that place lives. Cheap enough for every message.
    bool alive(uint32_t process) const;
    /// The same when its memory was found missing: a process loses that first when it dies.
    bool dying(uint32_t process) const;

    /// The dma-buf that a region was registered with, as this process has it.
    struct Import {
        int fd = -1;
        const unsigned char *window = nullptr; // the region's bytes, for the kernel to read; null where there is none
    };
    Import import(const MrEntry &region, uint32_t key);

private:
    class Entry {
    public:
        Entry(uint32_t key, File file, const MrEntry &region);
        ~Entry();
        Entry(const Entry &) = delete;
        Entry &operator=(const Entry &) = delete;

        uint32_t key() const { return m_key; }
        Import import() const { return {m_file.get(), m_map ? m_map + m_begin : nullptr}; }

    private:
        const uint32_t m_key;
        const File m_file;
        size_t m_begin = 0, m_length = 0; // of the region in the mapping, of the mapping
        unsigned char *m_map = nullptr;
    };

    Fabric &m_fabric;
    std::list<Entry> m_entries; // most recently used first; bounded, they keep memory of others alive
};

} // namespace softhca
