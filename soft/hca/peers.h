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

    /// A descriptor in this process of the dma-buf that region `key` was registered with, -1 when it cannot be had.
    int descriptor(const MrEntry &region, uint32_t key);

private:
    struct Descriptor {
        uint32_t key;
        File file;
    };

    Fabric &m_fabric;
    std::list<Descriptor> m_descriptors; // most recently used first; bounded, they keep memory of others alive
};

} // namespace softhca
