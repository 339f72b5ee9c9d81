// SPDX-License-Identifier: BSD-3-Clause
// Other processes of the fabric, and the descriptors of theirs that the engine uses. Only the engine's thread calls it.
#pragma once

#include "fabric.h"

#include <cstdint>
#include <list>
#include <unordered_map>

namespace softhca {

class Peers {
public:
    explicit Peers(Fabric &fabric) : m_fabric(fabric) {}

    /// Whether the process at that place lives. Cheap enough for every message.
    bool alive(uint32_t process);

    /// A descriptor in this process of the dma-buf that region `key` was registered with, -1 when it cannot be had.
    int descriptor(const MrEntry &region, uint32_t key);

private:
    struct Process {
        uint32_t id = 0;
        File pidfd;
    };
    struct Descriptor {
        uint32_t key;
        File file;
    };
    Process &process(uint32_t index);

    Fabric &m_fabric;
    std::unordered_map<uint32_t, Process> m_processes;
    std::list<Descriptor> m_descriptors; // most recently used first; bounded, they keep memory of others alive
};

} // namespace softhca
