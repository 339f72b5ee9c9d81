// SPDX-License-Identifier: BSD-3-Clause
// Posting of work requests.
#include "api.h"
#include "completion_queue.h"
#include "events.h"
#include "queue_pair.h"
#include "receive_ring.h"

#include <cstring>

using namespace softhca;

namespace {

int make_receive(const ibv_recv_wr &wr, uint32_t max_sge, Receive &out) {
    if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > max_sge)
        return EINVAL;
    out.wr_id = wr.wr_id;
    out.sges = static_cast<uint32_t>(wr.num_sge);
    for (uint32_t i = 0; i < out.sges; ++i)
        out.sge[i] = {wr.sg_list[i].addr, wr.sg_list[i].length, wr.sg_list[i].lkey};
    return 0;
}

int copy_inline(const ibv_send_wr &wr, uint32_t limit, Work &out) {
    size_t bytes = 0;
    for (int i = 0; i < wr.num_sge; ++i)
        bytes += wr.sg_list[i].length;
    if (bytes > limit)
        return EINVAL;
    out.inline_data.reserve(bytes);
    for (int i = 0; i < wr.num_sge; ++i) {
        const auto *data = reinterpret_cast<const unsigned char *>(wr.sg_list[i].addr);
        out.inline_data.insert(out.inline_data.end(), data, data + wr.sg_list[i].length);
    }
    return 0;
}

int make_work(const Qp &qp, const ibv_send_wr &wr, Work &out) {
    if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.init.cap.max_send_sge)
        return EINVAL;
    out.wr_id = wr.wr_id;
    out.opcode = wr.opcode;
    out.flags = wr.send_flags;
    out.imm_data = wr.imm_data;
    const bool datagram = qp.verbs.qp_type == IBV_QPT_UD;
    switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        if (datagram) {
            const ibv_ah_attr &path = Ah::of(wr.wr.ud.ah).attr;
            out.lid = path.dlid;
            out.global = path.is_global != 0;
            out.qp_num = wr.wr.ud.remote_qpn;
            out.qkey = (wr.wr.ud.remote_qkey & 0x80000000u) != 0 ? qp.attr.qkey : wr.wr.ud.remote_qkey;
        }
        break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        out.remote_address = wr.wr.rdma.remote_addr;
        out.rkey = wr.wr.rdma.rkey;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        out.remote_address = wr.wr.atomic.remote_addr;
        out.rkey = wr.wr.atomic.rkey;
        out.compare_add = wr.wr.atomic.compare_add;
        out.swap = wr.wr.atomic.swap;
        break;
    default:
        return EINVAL;
    }
    if (datagram && wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM)
        return EINVAL;
    const bool fetches = wr.opcode == IBV_WR_RDMA_READ || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                         wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    if ((wr.send_flags & IBV_SEND_INLINE) != 0)
        return fetches ? EINVAL : copy_inline(wr, qp.init.cap.max_inline_data, out);
    out.sges = static_cast<uint32_t>(wr.num_sge);
    for (uint32_t i = 0; i < out.sges; ++i)
        out.sge[i] = {wr.sg_list[i].addr, wr.sg_list[i].length, wr.sg_list[i].lkey};
    return 0;
}

/// Injects a fatal error of the queue pair.
void inject_qp_error(Hca &hca, const Qp &qp) {
    move_to_error(hca.fabric(), qp.id);
    raise_event(hca.fabric(), qp.entry->context, {IBV_EVENT_QP_FATAL, qp.id});
}

int post_one(Hca &hca, Qp &qp, const ibv_send_wr &wr) {
    const Hca::Fault fault = hca.match_faults("post_send", Context::of(qp.verbs.context).device);
    if (fault.error != 0)
        return fault.error;
    const ibv_qp_state state = qp_state(*qp.entry);
    if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR)
        return EINVAL;
    Work work{};
    if (const int error = make_work(qp, wr, work))
        return error;
    const int error = hca.engine().post(qp, std::move(work));
    if (fault.qp_error)
        inject_qp_error(hca, qp);
    return error;
}

} // namespace

int softhca::post_send(ibv_qp *verbs, ibv_send_wr *wr, ibv_send_wr **bad) {
    Hca *hca = hca_of(verbs->context);
    for (; wr; wr = wr->next) {
        const int error = hca ? guarded([&] { return post_one(*hca, Qp::of(verbs), *wr); }) : ENODEV;
        if (error != 0) {
            *bad = wr;
            return error;
        }
    }
    return 0;
}

int softhca::post_recv(ibv_qp *verbs, ibv_recv_wr *wr, ibv_recv_wr **bad) {
    Hca *hca = hca_of(verbs->context);
    QpEntry &entry = *Qp::of(verbs).entry;
    const auto post = [&] {
        if (!hca)
            return ENODEV;
        const Hca::Fault fault = hca->match_faults("post_recv", entry.device);
        if (fault.error != 0)
            return fault.error;
        if (verbs->srq)
            return EINVAL;
        Receive receive;
        if (const int error = make_receive(*wr, entry.ring.max_sge, receive))
            return error;
        bool flushed = false;
        {
            const Lock lock(entry.mutex);
            const ibv_qp_state state = qp_state(entry);
            if (state == IBV_QPS_RESET)
                return EINVAL;
            flushed = state == IBV_QPS_ERR;
            if (!flushed && !push(hca->fabric(), entry.ring, receive))
                return ENOMEM;
        }
        if (flushed) {
            Completion completion{};
            completion.wr_id = receive.wr_id;
            completion.status = IBV_WC_WR_FLUSH_ERR;
            completion.opcode = IBV_WC_RECV;
            completion.qp_num = verbs->qp_num;
            push_completion(hca->fabric(), entry.recv_cq, completion);
        }
        if (fault.qp_error)
            inject_qp_error(*hca, Qp::of(verbs));
        return 0;
    };
    for (; wr; wr = wr->next) {
        if (const int error = guarded(post)) {
            *bad = wr;
            return error;
        }
    }
    return 0;
}

int softhca::post_srq_recv(ibv_srq *verbs, ibv_recv_wr *wr, ibv_recv_wr **bad) {
    Hca *hca = hca_of(verbs->context);
    SrqEntry &entry = *Srq::of(verbs).entry;
    const auto post = [&] {
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("post_recv", Context::of(verbs->context).device).error)
            return error;
        Receive receive;
        if (const int error = make_receive(*wr, entry.ring.max_sge, receive))
            return error;
        const Lock lock(entry.mutex);
        return push(hca->fabric(), entry.ring, receive) ? 0 : ENOMEM;
    };
    for (; wr; wr = wr->next) {
        if (const int error = guarded(post)) {
            *bad = wr;
            return error;
        }
    }
    return 0;
}
