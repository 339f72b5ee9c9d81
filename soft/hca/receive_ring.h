// SPDX-License-Identifier: BSD-3-Clause
// Posted receives, in shared memory so that the sender's engine finds them. The caller holds the lock of the queue pair
// or shared receive queue the ring belongs to.
#pragma once

#include "fabric.h"

namespace softhca {

/// Bytes a ring of that shape needs.
size_t ring_bytes(uint32_t capacity, uint32_t max_sge);

inline uint32_t waiting(const ReceiveRing &ring) { return ring.tail - ring.head; }

/// False when it is full.
bool push(Fabric &fabric, ReceiveRing &ring, const Receive &receive);
/// False when it is empty.
bool pop(Fabric &fabric, ReceiveRing &ring, Receive &receive);

} // namespace softhca
