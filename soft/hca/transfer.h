// SPDX-License-Identifier: BSD-3-Clause
// Copies bytes between memory regions in this process, in another one (running or stopped), or in a dma-buf, which is
// accessed only through its descriptor. The kernel does every copy: unmapped memory fails the access without a signal,
// and sanitizers do not see device accesses.
#pragma once

#include "peers.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace softhca {

/// A range of bytes in a region, or in this library (`pointer`).
struct Segment {
    uint32_t key = 0;
    uint64_t address = 0; // as in the work request
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

    /// Copies all of `from` to the beginning of `to`, which is large enough. The caller checked the rights; each piece
    /// checks that the region still exists. `from_here`: the initiator is the source.
    Fault move(const Segments &from, const Segments &to, bool from_here);

    /// Atomically replaces 8 bytes by the result of `change`.
    template <class Change>
    bool atomic(const Segment &place, uint64_t &before, Change change) {
        const Lock lock(m_fabric.state().atomics);
        Segment value{0, 0, sizeof before, reinterpret_cast<unsigned char *>(&before)};
        if (copy_piece(place, value, sizeof before) != Fault::none)
            return false;
        uint64_t after = change(before);
        value.pointer = reinterpret_cast<unsigned char *>(&after);
        if (copy_piece(value, place, sizeof after) != Fault::none)
            return false;
        count(place.key, sizeof before, false, false);
        count(place.key, sizeof after, false, true);
        return true;
    }

private:
    struct Place;
    class Touch;

    Fault copy_piece(const Segment &from, const Segment &to, size_t bytes);
    bool resolve(const Segment &segment, Place &place, Touch &touch);
    bool read(const Place &from, void *out, size_t bytes);
    bool write(const Place &to, const void *data, size_t bytes);
    /// Whether the memory can be read: finds the side that made a copy fail.
    bool is_readable(const Place &place, size_t bytes);
    void count(uint32_t key, uint64_t bytes, bool local, bool written);

    Fabric &m_fabric;
    Peers m_peers;
    std::vector<unsigned char> m_bounce;
};

} // namespace softhca
