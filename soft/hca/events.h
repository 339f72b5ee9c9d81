// SPDX-License-Identifier: BSD-3-Clause
// Events for other processes and for this one: FIFOs in the fabric's directory, which can be polled and which anybody on
// this machine can write to, whatever network namespace it lives in.
#pragma once

#include "fabric.h"

#include <cstdint>

namespace softhca {

/// An asynchronous event as it travels.
struct AsyncRecord {
    uint32_t type;    // ibv_event_type
    uint32_t element; // id of the queue (pair), or the port
};

/// Makes a FIFO and opens it for reading so that it never ends; -1 with errno.
int make_fifo(const std::string &path);

/// Queues an event of context `id`. Without effect when the context is gone.
void raise(Fabric &fabric, uint32_t id, const AsyncRecord &record);
/// To every context of a device.
void raise_on_device(Fabric &fabric, unsigned device, const AsyncRecord &record);

/// Tells channel `id` that queue `cq` has a completion.
void notify_channel(Fabric &fabric, uint32_t id, uint32_t cq);

} // namespace softhca
