// SPDX-License-Identifier: BSD-3-Clause
// Posted receives, in shared memory for the sender's engine. The caller holds the lock of the queue pair or shared
// receive queue that owns the ring.
#pragma once

#include "fabric.h"

namespace softhca {

/// Bytes that a ring of this shape needs.
size_t ring_bytes(uint32_t capacity, uint32_t max_sge);

inline uint32_t count_receives(const ReceiveRing &ring) { return ring.tail - ring.head; }

/// False when the ring is full.
bool push(Fabric &fabric, ReceiveRing &ring, const Receive &receive);
/// False when the ring is empty.
bool pop(Fabric &fabric, ReceiveRing &ring, Receive &receive);

} // namespace softhca
