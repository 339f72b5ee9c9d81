// SPDX-License-Identifier: BSD-3-Clause
// Moving bytes between memory regions, wherever their memory is: this process, another one (running or stopped), or a
// dma-buf, which is reached through its descriptor and in no other way. The kernel does every copy, so memory that is
// not there (any more) is a failed access and never a signal, and sanitizers do not see what a device does.
#pragma once

#include "peers.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace softhca {

/// A stretch of bytes: of a region, or of this library itself (`pointer`).
struct Segment {
    uint32_t key = 0;
    uint64_t address = 0; // as the work request gives it
    uint64_t length = 0;
    unsigned char *pointer = nullptr;
};

using Segments = std::vector<Segment>;

uint64_t total(const Segments &segments);

class Transfer {
public:
    enum class Fault { none, source, target };

    explicit Transfer(Fabric &fabric) : m_fabric(fabric), m_peers(fabric) {}

    Peers &peers() { return m_peers; }

    /// Copies all of `from` to the beginning of `to`, which has room for it. The rights were checked before; that a
    /// region still exists is checked for each piece. `from_here`: which of the two is the initiator's side.
    Fault move(const Segments &from, const Segments &to, bool from_here);

    /// Reads 8 bytes, hands them to `change` and writes what it returns, as one step among all that do so.
    template <class Change>
    bool atomic(const Segment &place, uint64_t &before, Change change) {
        const Lock lock(m_fabric.state().atomics);
        Segment value{0, 0, sizeof before, reinterpret_cast<unsigned char *>(&before)};
        if (piece(place, value, sizeof before) != Fault::none)
            return false;
        uint64_t after = change(before);
        value.pointer = reinterpret_cast<unsigned char *>(&after);
        if (piece(value, place, sizeof after) != Fault::none)
            return false;
        count(place.key, sizeof before, false, false);
        count(place.key, sizeof after, false, true);
        return true;
    }

private:
    struct Place;
    class Touch;

    Fault piece(const Segment &from, const Segment &to, size_t bytes);
    bool resolve(const Segment &segment, Place &place, Touch &touch);
    bool read(const Place &from, void *out, size_t bytes);
    bool write(const Place &to, const void *data, size_t bytes);
    /// Whether the memory is there, to tell which side of a failed copy was to blame.
    bool there(const Place &place, size_t bytes);
    void count(uint32_t key, uint64_t bytes, bool local, bool written);

    Fabric &m_fabric;
    Peers m_peers;
    std::vector<unsigned char> m_bounce;
};

} // namespace softhca
