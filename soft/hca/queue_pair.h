// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: the state machine, and the move to the error state.
#pragma once

#include "fabric.h"

#include <infiniband/verbs.h>

#include <functional>

namespace softhca {

inline ibv_qp_state qp_state(const QpEntry &entry) {
    return static_cast<ibv_qp_state>(entry.state.load(std::memory_order_acquire));
}

/// 0, or EINVAL for an undefined transition or a missing attribute.
int check_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

/// Moves a queue pair of any process to the error state: flushes its receives and wakes the owner's engine, which
/// flushes the sends. `reason` pushes the completion with the cause, after the state change and before the flushed
/// ones.
void move_to_error(Fabric &fabric, uint32_t id, const std::function<void()> &reason = {});

} // namespace softhca
