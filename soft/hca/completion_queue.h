// SPDX-License-Identifier: BSD-3-Clause
// Completion queues in shared memory: the process that did the work pushes, the owner polls.
#pragma once

#include "fabric.h"

namespace softhca {

/// Pushes a completion to queue `id` and notifies its channel if armed. Does nothing when the queue is gone.
void push_completion(Fabric &fabric, uint32_t id, const Completion &completion);

inline bool is_empty(const CqEntry &queue) {
    return queue.tail.load(std::memory_order_acquire) == queue.head.load(std::memory_order_relaxed);
}

/// Takes up to `count` completions and returns their number.
int poll(Fabric &fabric, CqEntry &queue, int count, Completion *out);

/// Arms the queue: the next matching completion notifies the channel.
void arm(CqEntry &queue, bool solicited_only);

/// Drops the completions of a queue pair that is being destroyed.
void drop_completions(Fabric &fabric, uint32_t id, uint32_t qp_num);

} // namespace softhca
