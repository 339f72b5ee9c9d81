// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues and queue pairs; posting is in api_post.cpp.
#include "api.h"
#include "completion_queue.h"
#include "queue_pair.h"
#include "receive_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

using namespace softhca;

namespace {

/// Allocates a ring for `max_wr` receives.
bool make_ring(Fabric &fabric, ReceiveRing &ring, uint32_t max_wr, uint32_t max_sge) GAUDI_REQUIRES(fabric.tables()) {
    ring = {};
    if (max_wr == 0)
        return true;
    ring.capacity = std::bit_ceil(max_wr);
    ring.max_sge = max_sge;
    return fabric.allocate(ring_bytes(ring.capacity, max_sge), ring.extent);
}

uint32_t lid_of_path(const ibv_ah_attr &path) {
    if (path.dlid != 0 || path.is_global == 0)
        return path.dlid;
    for (unsigned i = 0; i < kMaxDevices; ++i) {
        const ibv_gid gid = gid_of(i);
        if (std::memcmp(&gid, &path.grh.dgid, sizeof gid) == 0)
            return lid_of(i);
    }
    return 0;
}

/// Copies the attributes in `mask`.
void copy_attributes(Qp &qp, const ibv_qp_attr &from, int mask) {
    ibv_qp_attr &to = qp.attr;
    QpEntry &entry = *qp.entry;
    const auto has = [mask](int bit) { return (mask & bit) != 0; };
    if (has(IBV_QP_ACCESS_FLAGS)) {
        to.qp_access_flags = from.qp_access_flags;
        entry.access.store(from.qp_access_flags);
    }
    if (has(IBV_QP_PKEY_INDEX))
        to.pkey_index = from.pkey_index;
    if (has(IBV_QP_PORT))
        to.port_num = from.port_num;
    if (has(IBV_QP_QKEY)) {
        to.qkey = from.qkey;
        entry.qkey.store(from.qkey);
    }
    if (has(IBV_QP_AV)) {
        to.ah_attr = from.ah_attr;
        entry.peer_lid.store(lid_of_path(from.ah_attr));
    }
    if (has(IBV_QP_PATH_MTU))
        to.path_mtu = from.path_mtu;
    if (has(IBV_QP_TIMEOUT))
        to.timeout = from.timeout;
    if (has(IBV_QP_RETRY_CNT))
        to.retry_cnt = from.retry_cnt;
    if (has(IBV_QP_RNR_RETRY))
        to.rnr_retry = from.rnr_retry;
    if (has(IBV_QP_RQ_PSN))
        to.rq_psn = from.rq_psn;
    if (has(IBV_QP_SQ_PSN))
        to.sq_psn = from.sq_psn;
    if (has(IBV_QP_MAX_QP_RD_ATOMIC))
        to.max_rd_atomic = from.max_rd_atomic;
    if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) {
        to.max_dest_rd_atomic = from.max_dest_rd_atomic;
        entry.max_dest_rd_atomic.store(from.max_dest_rd_atomic);
    }
    if (has(IBV_QP_MIN_RNR_TIMER)) {
        to.min_rnr_timer = from.min_rnr_timer;
        entry.min_rnr_timer.store(from.min_rnr_timer);
    }
    if (has(IBV_QP_DEST_QPN)) {
        to.dest_qp_num = from.dest_qp_num;
        entry.peer_qp.store(from.dest_qp_num);
    }
}

int check_attributes(const ibv_qp_attr &attr, int mask) {
    const auto has = [mask](int bit) { return (mask & bit) != 0; };
    if ((has(IBV_QP_PORT) && attr.port_num != 1) || (has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) ||
        (has(IBV_QP_AV) && attr.ah_attr.port_num != 1) || (has(IBV_QP_RETRY_CNT) && attr.retry_cnt > 7) ||
        (has(IBV_QP_RNR_RETRY) && attr.rnr_retry > 7) || (has(IBV_QP_TIMEOUT) && attr.timeout > 31) ||
        (has(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) ||
        (has(IBV_QP_PATH_MTU) && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096)) ||
        (has(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > 16) ||
        (has(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > 16) ||
        has(IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT))
        return EINVAL;
    return 0;
}

void reset(Hca &hca, Qp &qp) {
    hca.engine().forget(qp);
    {
        const Lock lock(qp.entry->mutex);
        qp.entry->state.store(IBV_QPS_RESET);
        qp.entry->ring.head = qp.entry->ring.tail;
        qp.entry->peer_qp.store(0);
        qp.entry->access.store(0);
        qp.entry->max_dest_rd_atomic.store(0);
    }
    drop_completions(hca.fabric(), qp.entry->send_cq, qp.id);
    drop_completions(hca.fabric(), qp.entry->recv_cq, qp.id);
}

int check_queue_pair(const ibv_qp_init_attr &init) {
    const ibv_qp_cap &cap = init.cap;
    if (init.qp_type != IBV_QPT_RC && init.qp_type != IBV_QPT_UD)
        return EOPNOTSUPP;
    if (!init.send_cq || !init.recv_cq || cap.max_send_wr > kMaxQueue || cap.max_recv_wr > kMaxQueue ||
        cap.max_send_sge > kMaxSge || cap.max_recv_sge > kMaxSge || cap.max_inline_data > kMaxInline)
        return EINVAL;
    return 0;
}

} // namespace

SOFTHCA_API ibv_srq *ibv_create_srq(ibv_pd *pd, ibv_srq_init_attr *init) {
    return make_object<ibv_srq>([&](ibv_srq *&out) {
        Hca *hca = hca_of(pd->context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("create_srq", Context::of(pd->context).device).error)
            return error;
        if (init->attr.max_wr == 0 || init->attr.max_wr > kMaxQueue || init->attr.max_sge > kMaxSge)
            return EINVAL;
        auto srq = std::make_unique<Srq>();
        Fabric &fabric = hca->fabric();
        srq->entry = fabric.take(hca->state().srqs, [&](SrqEntry &fresh, uint32_t id) {
            fabric.tables().assert_held();
            if (!make_ring(fabric, fresh.ring, init->attr.max_wr, std::max(init->attr.max_sge, 1u)))
                return ENOMEM;
            srq->id = id;
            fresh.context = Context::of(pd->context).id;
            fresh.pd = Pd::of(pd).id;
            fresh.limit = 0;
            return 0;
        });
        if (!srq->entry)
            return errno;
        init->attr.max_wr = srq->entry->ring.capacity;
        init->attr.max_sge = srq->entry->ring.max_sge;
        srq->verbs.context = pd->context;
        srq->verbs.srq_context = init->srq_context;
        srq->verbs.pd = pd;
        srq->verbs.handle = srq->id;
        Pd::of(pd).users.fetch_add(1);
        hca->add(*srq);
        out = &srq.release()->verbs;
        return 0;
    });
}

SOFTHCA_API int ibv_modify_srq(ibv_srq *verbs, ibv_srq_attr *attr, int mask) {
    return guarded([&] {
        if (!hca_of(verbs->context))
            return ENODEV;
        if ((mask & IBV_SRQ_MAX_WR) != 0)
            return EOPNOTSUPP;
        SrqEntry &entry = *Srq::of(verbs).entry;
        const Lock lock(entry.mutex);
        if ((mask & IBV_SRQ_LIMIT) != 0) {
            if (attr->srq_limit > entry.ring.capacity)
                return EINVAL;
            entry.limit = attr->srq_limit;
        }
        return 0;
    });
}

SOFTHCA_API int ibv_query_srq(ibv_srq *verbs, ibv_srq_attr *attr) {
    return guarded([&] {
        if (!hca_of(verbs->context))
            return ENODEV;
        SrqEntry &entry = *Srq::of(verbs).entry;
        const Lock lock(entry.mutex);
        *attr = {entry.ring.capacity, entry.ring.max_sge, entry.limit};
        return 0;
    });
}

SOFTHCA_API int ibv_destroy_srq(ibv_srq *verbs) {
    return guarded([&] {
        Srq &srq = Srq::of(verbs);
        if (srq.users.load() != 0)
            return EBUSY;
        if (Hca *hca = hca_of(verbs->context)) {
            hca->remove(srq);
            srq.async_events.wait();
            hca->fabric().destroy(*srq.entry);
        }
        Pd::of(verbs->pd).users.fetch_sub(1);
        delete &srq;
        return 0;
    });
}

SOFTHCA_API ibv_qp *ibv_create_qp(ibv_pd *pd, ibv_qp_init_attr *init) {
    return make_object<ibv_qp>([&](ibv_qp *&out) {
        Hca *hca = hca_of(pd->context);
        if (!hca)
            return ENODEV;
        const Context &context = Context::of(pd->context);
        if (const int error = hca->match_faults("create_qp", context.device).error)
            return error;
        if (const int error = check_queue_pair(*init))
            return error;
        auto qp = std::make_unique<Qp>();
        Fabric &fabric = hca->fabric();
        qp->entry = fabric.take(hca->state().qps, [&](QpEntry &fresh, uint32_t id) {
            fabric.tables().assert_held();
            const uint32_t receives = init->srq ? 0 : init->cap.max_recv_wr;
            if (!make_ring(fabric, fresh.ring, receives, std::max(init->cap.max_recv_sge, 1u)))
                return ENOMEM;
            qp->id = id;
            fresh.context = context.id;
            fresh.device = context.device;
            fresh.pd = Pd::of(pd).id;
            fresh.type = init->qp_type;
            fresh.send_cq = Cq::of(init->send_cq).id;
            fresh.recv_cq = Cq::of(init->recv_cq).id;
            fresh.srq = init->srq ? Srq::of(init->srq).id : 0;
            for (auto *value : {&fresh.state, &fresh.access, &fresh.peer_qp, &fresh.peer_lid, &fresh.qkey,
                                &fresh.min_rnr_timer, &fresh.max_dest_rd_atomic})
                value->store(0);
            return 0;
        });
        if (!qp->entry)
            return errno;
        if (!init->srq)
            init->cap.max_recv_wr = qp->entry->ring.capacity;
        qp->init = *init;
        qp->verbs.context = pd->context;
        qp->verbs.qp_context = init->qp_context;
        qp->verbs.pd = pd;
        qp->verbs.send_cq = init->send_cq;
        qp->verbs.recv_cq = init->recv_cq;
        qp->verbs.srq = init->srq;
        qp->verbs.handle = qp->id;
        qp->verbs.qp_num = qp->id;
        qp->verbs.state = IBV_QPS_RESET;
        qp->verbs.qp_type = init->qp_type;
        Pd::of(pd).users.fetch_add(1);
        Cq::of(init->send_cq).users.fetch_add(1);
        Cq::of(init->recv_cq).users.fetch_add(1);
        if (init->srq)
            Srq::of(init->srq).users.fetch_add(1);
        hca->add(*qp);
        out = &qp.release()->verbs;
        return 0;
    });
}

SOFTHCA_API int ibv_modify_qp(ibv_qp *verbs, ibv_qp_attr *attr, int mask) {
    return guarded([&] {
        Hca *hca = hca_of(verbs->context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("modify_qp", Context::of(verbs->context).device).error)
            return error;
        Qp &qp = Qp::of(verbs);
        const ibv_qp_state from = qp_state(*qp.entry);
        const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
        if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from)
            return EINVAL;
        if (const int error = check_transition(verbs->qp_type, from, to, mask))
            return error;
        if (to != IBV_QPS_RESET && to != IBV_QPS_ERR) {
            if (const int error = check_attributes(*attr, mask))
                return error;
            const gaudi::os::MutexLock paused(hca->engine().busy());
            copy_attributes(qp, *attr, mask);
        }
        if (to == IBV_QPS_RESET) {
            reset(*hca, qp);
        } else if (to == IBV_QPS_ERR) {
            move_to_error(hca->fabric(), qp.id);
            hca->engine().wake();
        } else {
            // Another process may have moved it to the error state.
            uint32_t expected = from;
            if (!qp.entry->state.compare_exchange_strong(expected, to))
                return EINVAL;
            hca->engine().wake();
        }
        verbs->state = to;
        return 0;
    });
}

SOFTHCA_API int ibv_query_qp(ibv_qp *verbs, ibv_qp_attr *attr, int, ibv_qp_init_attr *init) {
    return guarded([&] {
        if (!hca_of(verbs->context))
            return ENODEV;
        const Qp &qp = Qp::of(verbs);
        *attr = qp.attr;
        attr->qp_state = attr->cur_qp_state = qp_state(*qp.entry);
        attr->path_mig_state = IBV_MIG_MIGRATED;
        attr->cap = qp.init.cap;
        verbs->state = attr->qp_state;
        *init = qp.init;
        return 0;
    });
}

SOFTHCA_API int ibv_destroy_qp(ibv_qp *verbs) {
    return guarded([&] {
        Qp &qp = Qp::of(verbs);
        if (Hca *hca = hca_of(verbs->context)) {
            hca->remove(qp);
            reset(*hca, qp);
            qp.async_events.wait();
            hca->fabric().destroy(*qp.entry);
        }
        Pd::of(verbs->pd).users.fetch_sub(1);
        Cq::of(verbs->send_cq).users.fetch_sub(1);
        Cq::of(verbs->recv_cq).users.fetch_sub(1);
        if (verbs->srq)
            Srq::of(verbs->srq).users.fetch_sub(1);
        delete &qp;
        return 0;
    });
}
