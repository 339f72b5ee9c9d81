// SPDX-License-Identifier: BSD-3-Clause
// Completion queues in shared memory: whoever did the work puts its completion in, the owner takes it out.
#pragma once

#include "fabric.h"

namespace softhca {

/// Puts a completion into queue `id` and wakes its channel if it is armed for that. Without effect when it is gone.
void complete(Fabric &fabric, uint32_t id, const Completion &completion);

inline bool empty(const CqEntry &queue) {
    return queue.tail.load(std::memory_order_acquire) == queue.head.load(std::memory_order_relaxed);
}

/// Takes up to `count`; how many there were.
int poll(Fabric &fabric, CqEntry &queue, int count, Completion *out);

/// The next completion that fits sends an event.
void arm(CqEntry &queue, bool solicited_only);

/// Drops the completions of a queue pair that is being destroyed.
void forget(Fabric &fabric, uint32_t id, uint32_t qp_num);

} // namespace softhca
