// SPDX-License-Identifier: BSD-3-Clause
#include "receive_ring.h"

#include <cstring>

namespace softhca {
namespace {

size_t stride(uint32_t max_sge) { return offsetof(Receive, sge) + max_sge * sizeof(Sge); }

unsigned char *place(Fabric &fabric, const ReceiveRing &ring, uint32_t number) {
    return fabric.memory(ring.extent) + number % ring.capacity * stride(ring.max_sge);
}

} // namespace

size_t ring_bytes(uint32_t capacity, uint32_t max_sge) { return capacity * stride(max_sge); }

bool push(Fabric &fabric, ReceiveRing &ring, const Receive &receive) {
    if (ring.capacity == 0 || count_receives(ring) >= ring.capacity)
        return false;
    std::memcpy(place(fabric, ring, ring.tail), &receive, stride(receive.sges));
    ++ring.tail;
    return true;
}

bool pop(Fabric &fabric, ReceiveRing &ring, Receive &receive) {
    if (count_receives(ring) == 0)
        return false;
    std::memcpy(&receive, place(fabric, ring, ring.head), stride(ring.max_sge));
    ++ring.head;
    return true;
}

} // namespace softhca
