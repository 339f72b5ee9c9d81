// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: the state machine, and what happens to their receives when they break.
#pragma once

#include "fabric.h"

#include <infiniband/verbs.h>

#include <functional>

namespace softhca {

inline ibv_qp_state qp_state(const QpEntry &entry) {
    return static_cast<ibv_qp_state>(entry.state.load(std::memory_order_acquire));
}

/// 0, or the errno of a transition that there is not or that lacks something.
int check_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

/// Into the error state: receives are flushed here, sends by the owner's engine, which is woken. Any process may do it.
/// `reason` puts the completion that tells why: after the state has changed, before what is flushed.
void break_queue_pair(Fabric &fabric, uint32_t id, const std::function<void()> &reason = {});

} // namespace softhca
