// SPDX-License-Identifier: BSD-3-Clause
// Events within and between processes: FIFOs in the fabric's directory, which can be polled and which every process of
// this machine can write, in any network namespace.
#pragma once

#include "fabric.h"

#include <cstdint>

namespace softhca {

/// An asynchronous event as written to a FIFO.
struct AsyncRecord {
    uint32_t type;    // ibv_event_type
    uint32_t element; // id of the queue (pair), or the port
};

/// Creates a FIFO and opens it for reading and writing, so that it never reports end-of-file; -1 with errno.
int make_fifo(const std::string &path);

/// Queues an event of context `id`. Does nothing when the context is gone.
void raise_event(Fabric &fabric, uint32_t id, const AsyncRecord &record);
/// Queues an event of every context of a device.
void raise_device_event(Fabric &fabric, unsigned device, const AsyncRecord &record);

/// Notifies channel `id` of a completion in queue `cq`.
void notify_channel(Fabric &fabric, uint32_t id, uint32_t cq);

} // namespace softhca
