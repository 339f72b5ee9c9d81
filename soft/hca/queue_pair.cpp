// SPDX-License-Identifier: BSD-3-Clause
#include "queue_pair.h"

#include "completion_queue.h"
#include "events.h"
#include "receive_ring.h"

#include <array>
#include <vector>

namespace softhca {
namespace {

struct Transition {
    ibv_qp_type type;
    ibv_qp_state from, to;
    int required;
};

constexpr int kRcInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRcRtr =
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRcRts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kUdInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

constexpr std::array kTransitions = {
    Transition{IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, kRcInit},
    Transition{IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0},
    Transition{IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kRcRtr},
    Transition{IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, kRcRts},
    Transition{IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0},
    Transition{IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0},
    Transition{IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0},
    Transition{IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0},
    Transition{IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, kUdInit},
    Transition{IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0},
    Transition{IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0},
    Transition{IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN},
    Transition{IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0},
    Transition{IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0},
    Transition{IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0},
    Transition{IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, 0},
};

} // namespace

int check_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return 0;
    for (const Transition &known : kTransitions) {
        if (known.type == type && known.from == from && known.to == to)
            return (mask & known.required) == known.required ? 0 : EINVAL;
    }
    return EINVAL;
}

void move_to_error(Fabric &fabric, uint32_t id, const std::function<void()> &reason) {
    const auto push_reason = [&] {
        if (reason)
            reason();
    };
    QpEntry *entry = fabric.state().qps.find(id);
    if (!entry)
        return push_reason();
    std::vector<uint64_t> flushed;
    uint32_t recv_cq = 0, context = 0, process = 0;
    bool shared = false, moved = false;
    {
        const Lock lock(entry->mutex);
        moved = entry->id.load() == id && qp_state(*entry) != IBV_QPS_ERR;
        if (moved)
            entry->state.store(IBV_QPS_ERR, std::memory_order_release);
        recv_cq = entry->recv_cq;
        context = entry->context;
        process = entry->process;
        shared = entry->srq != 0;
        Receive receive;
        while (moved && pop(fabric, entry->ring, receive))
            flushed.push_back(receive.wr_id);
    }
    push_reason();
    if (!moved)
        return;
    for (const uint64_t wr_id : flushed) {
        Completion completion{};
        completion.wr_id = wr_id;
        completion.status = IBV_WC_WR_FLUSH_ERR;
        completion.opcode = IBV_WC_RECV;
        completion.qp_num = id;
        push_completion(fabric, recv_cq, completion);
    }
    if (shared)
        raise_event(fabric, context, {IBV_EVENT_QP_LAST_WQE_REACHED, id});
    fabric.state().processes.entries[process].wake.signal();
}

} // namespace softhca
