// SPDX-License-Identifier: BSD-3-Clause
#include "requester.h"

#include "events.h"
#include "queue_pair.h"
#include "receive_ring.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace softhca {
namespace {

constexpr uint32_t kGrh = 40; // bytes before each datagram

bool carries_immediate(ibv_wr_opcode opcode) {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

Outcome failed(ibv_wc_status status) {
    Outcome outcome;
    outcome.status = status;
    return outcome;
}

/// The responder's queue pair fails too, with an event.
Outcome refused(ibv_wc_status status, uint32_t peer, int event = IBV_EVENT_QP_ACCESS_ERR) {
    Outcome outcome = failed(status);
    outcome.failed_qp = peer;
    outcome.event = event;
    return outcome;
}

Outcome retry_later(Outcome::Next next, uint64_t delay_ns = 0) {
    Outcome outcome;
    outcome.next = next;
    outcome.delay_ns = delay_ns;
    return outcome;
}

bool can_respond(ibv_qp_state state) {
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE;
}

} // namespace

ibv_gid gid_of(unsigned device) {
    ibv_gid gid{};
    gid.global.subnet_prefix = htobe64(0xfe80000000000000u);
    gid.global.interface_id = htobe64(guid(device));
    return gid;
}

uint64_t guid(unsigned device) { return 0x5ca1ab1e00500000u + device; }

uint64_t rnr_timer_ns(uint32_t code) {
    // Units of 10 microseconds.
    static constexpr std::array<uint32_t, 32> table = {
        65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
        256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return table[code & 31] * uint64_t{10'000};
}

uint64_t ack_timeout_ns(uint32_t code) { return code == 0 ? kForever : uint64_t{4096} << (code & 31); }

bool Requester::is_link_up(uint32_t device) const { return m_fabric.state().devices[device].down.load() == 0; }

bool Requester::is_access_allowed(uint32_t key, uint32_t device, uint32_t pd, uint64_t address, uint64_t length,
                                  uint32_t access) {
    const MrEntry *region = m_fabric.state().mrs.find(key);
    return region && region->device == device && region->pd == pd && (region->access & access) == access &&
           address >= region->iova && length <= region->length && address - region->iova <= region->length - length;
}

bool Requester::gather(const Qp &qp, const Work &work, bool write, Segments &out) {
    if ((work.flags & IBV_SEND_INLINE) != 0) {
        if (!work.inline_data.empty())
            out.push_back({0, 0, work.inline_data.size(), const_cast<unsigned char *>(work.inline_data.data())});
        return true;
    }
    for (uint32_t i = 0; i < work.sges; ++i) {
        const Sge &sge = work.sge[i];
        if (sge.length == 0)
            continue;
        if (!is_access_allowed(sge.lkey, qp.entry->device, qp.entry->pd, sge.address, sge.length,
                               write ? IBV_ACCESS_LOCAL_WRITE : 0))
            return false;
        out.push_back({sge.lkey, sge.address, sge.length, nullptr});
    }
    return true;
}

bool Requester::scatter(const Receive &receive, uint32_t device, uint32_t pd, Segments &out) {
    for (uint32_t i = 0; i < receive.sges; ++i) {
        const Sge &sge = receive.sge[i];
        if (sge.length == 0)
            continue;
        if (!is_access_allowed(sge.lkey, device, pd, sge.address, sge.length, IBV_ACCESS_LOCAL_WRITE))
            return false;
        out.push_back({sge.lkey, sge.address, sge.length, nullptr});
    }
    return true;
}

Requester::Taken Requester::take_receive(uint32_t id) {
    Taken taken;
    QpEntry *entry = m_fabric.state().qps.find(id);
    if (!entry)
        return taken;
    uint32_t srq = 0;
    {
        const Lock lock(entry->mutex);
        if (entry->id.load() != id || !can_respond(qp_state(*entry)))
            return taken;
        taken.recv_cq = entry->recv_cq;
        taken.device = entry->device;
        taken.process = entry->process;
        taken.pd = entry->pd;
        taken.rnr_ns = rnr_timer_ns(entry->min_rnr_timer.load());
        srq = entry->srq;
        if (srq == 0) {
            taken.state = pop(m_fabric, entry->ring, taken.receive) ? Taken::State::taken : Taken::State::no_receive;
            return taken;
        }
    }
    SrqEntry *queue = m_fabric.state().srqs.find(srq);
    if (!queue)
        return taken;
    uint32_t context = 0;
    bool low = false;
    {
        const Lock lock(queue->mutex);
        if (queue->id.load() != srq)
            return taken;
        taken.pd = queue->pd;
        taken.state = pop(m_fabric, queue->ring, taken.receive) ? Taken::State::taken : Taken::State::no_receive;
        context = queue->context;
        low = queue->limit != 0 && count_receives(queue->ring) < queue->limit;
        if (low)
            queue->limit = 0; // reported once
    }
    if (low)
        raise_event(m_fabric, context, {IBV_EVENT_SRQ_LIMIT_REACHED, srq});
    return taken;
}

Outcome Requester::perform(const Qp &qp, const Work &work) {
    return qp.entry->type == IBV_QPT_UD ? perform_datagram(qp, work) : perform_reliable(qp, work);
}

Outcome Requester::perform_reliable(const Qp &qp, const Work &work) {
    const bool fetches = work.opcode == IBV_WR_RDMA_READ || work.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                         work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    Segments local;
    if (!gather(qp, work, fetches, local))
        return failed(IBV_WC_LOC_PROT_ERR);
    if (total(local) > kMaxMessage)
        return failed(IBV_WC_LOC_LEN_ERR);

    const uint32_t id = qp.entry->peer_qp.load();
    QpEntry *peer = m_fabric.state().qps.find(id);
    const bool alive = peer && peers().is_alive(peer->process);
    if (!alive)
        peers().close_deregistered_and_dead();
    // A dead peer looks like a silent one: a NIC detects both by its retries.
    if (!is_link_up(qp.entry->device) || !alive || peer->type != IBV_QPT_RC || !can_respond(qp_state(*peer)) ||
        peer->peer_qp.load() != qp.id || lid_of(peer->device) != qp.entry->peer_lid.load() || !is_link_up(peer->device))
        return retry_later(Outcome::Next::no_answer);

    switch (work.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return perform_send(qp, work, local, id);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        return perform_rdma(qp, work, local, *peer);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return perform_atomic(qp, work, local, *peer);
    default:
        return failed(IBV_WC_LOC_QP_OP_ERR);
    }
}

Outcome Requester::perform_send(const Qp &qp, const Work &work, const Segments &local, uint32_t peer) {
    const Taken taken = take_receive(peer);
    if (taken.state == Taken::State::no_queue_pair)
        return retry_later(Outcome::Next::no_answer);
    if (taken.state == Taken::State::no_receive)
        return retry_later(Outcome::Next::not_ready, taken.rnr_ns);

    Completion received{};
    received.wr_id = taken.receive.wr_id;
    received.qp_num = peer;
    received.opcode = IBV_WC_RECV;
    received.src_qp = qp.id;
    received.slid = lid_of(qp.entry->device);
    received.solicited = (work.flags & IBV_SEND_SOLICITED) != 0;
    if (carries_immediate(work.opcode)) {
        received.wc_flags |= IBV_WC_WITH_IMM;
        received.imm_data = work.imm_data;
    }
    Outcome outcome;
    outcome.bytes = total(local);
    outcome.source = qp.entry->device;
    received.byte_len = static_cast<uint32_t>(outcome.bytes);

    Segments remote;
    const auto responder_fails = [&](ibv_wc_status responder_status, ibv_wc_status requester_status) {
        received.status = responder_status;
        outcome = refused(requester_status, peer, IBV_EVENT_QP_FATAL);
        outcome.notices.push_back({taken.recv_cq, received});
        return outcome;
    };
    if (!scatter(taken.receive, taken.device, taken.pd, remote))
        return responder_fails(IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    if (total(remote) < outcome.bytes)
        return responder_fails(IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
    switch (m_transfer.move(local, remote, true)) {
    case Transfer::Fault::source:
        return failed(IBV_WC_LOC_PROT_ERR);
    case Transfer::Fault::target:
        if (peers().is_dying(taken.process))
            return retry_later(Outcome::Next::no_answer);
        return responder_fails(IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    case Transfer::Fault::none:
        break;
    }
    outcome.notices.push_back({taken.recv_cq, received});
    return outcome;
}

Outcome Requester::perform_rdma(const Qp &qp, const Work &work, const Segments &local, QpEntry &peer) {
    const uint32_t id = qp.entry->peer_qp.load();
    const bool read = work.opcode == IBV_WR_RDMA_READ;
    const uint32_t right = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    const uint64_t bytes = total(local);
    if (read && peer.max_dest_rd_atomic.load() == 0)
        return refused(IBV_WC_REM_INV_REQ_ERR, id, IBV_EVENT_QP_REQ_ERR);
    // An empty transfer accesses nothing, so nothing is checked.
    if (bytes != 0 && ((peer.access.load() & right) == 0 ||
                       !is_access_allowed(work.rkey, peer.device, peer.pd, work.remote_address, bytes, right)))
        return refused(IBV_WC_REM_ACCESS_ERR, id);

    Outcome outcome;
    outcome.bytes = bytes;
    outcome.source = read ? peer.device : qp.entry->device;
    Taken taken;
    if (carries_immediate(work.opcode)) {
        taken = take_receive(id);
        if (taken.state == Taken::State::no_queue_pair)
            return retry_later(Outcome::Next::no_answer);
        if (taken.state == Taken::State::no_receive)
            return retry_later(Outcome::Next::not_ready, taken.rnr_ns);
    }
    if (bytes != 0) {
        const Segments remote = {{work.rkey, work.remote_address, bytes, nullptr}};
        const Transfer::Fault fault =
            read ? m_transfer.move(remote, local, false) : m_transfer.move(local, remote, true);
        if (fault != Transfer::Fault::none) {
            const bool is_local = (fault == Transfer::Fault::target) == read;
            if (is_local)
                return failed(IBV_WC_LOC_PROT_ERR);
            return peers().is_dying(peer.process) ? retry_later(Outcome::Next::no_answer)
                                                  : refused(IBV_WC_REM_OP_ERR, id);
        }
    }
    if (carries_immediate(work.opcode)) {
        Completion received{};
        received.wr_id = taken.receive.wr_id;
        received.qp_num = id;
        received.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        received.byte_len = static_cast<uint32_t>(bytes);
        received.src_qp = qp.id;
        received.slid = lid_of(qp.entry->device);
        received.wc_flags = IBV_WC_WITH_IMM;
        received.imm_data = work.imm_data;
        received.solicited = (work.flags & IBV_SEND_SOLICITED) != 0;
        outcome.notices.push_back({taken.recv_cq, received});
    }
    return outcome;
}

Outcome Requester::perform_atomic(const Qp &qp, const Work &work, const Segments &local, QpEntry &peer) {
    const uint32_t id = qp.entry->peer_qp.load();
    constexpr uint64_t kBytes = sizeof(uint64_t);
    if (total(local) != kBytes)
        return failed(IBV_WC_LOC_LEN_ERR);
    if (work.remote_address % kBytes != 0 || peer.max_dest_rd_atomic.load() == 0)
        return refused(IBV_WC_REM_INV_REQ_ERR, id, IBV_EVENT_QP_REQ_ERR);
    if ((peer.access.load() & IBV_ACCESS_REMOTE_ATOMIC) == 0 ||
        !is_access_allowed(work.rkey, peer.device, peer.pd, work.remote_address, kBytes, IBV_ACCESS_REMOTE_ATOMIC))
        return refused(IBV_WC_REM_ACCESS_ERR, id);

    uint64_t before = 0;
    const bool done = m_transfer.atomic({work.rkey, work.remote_address, kBytes, nullptr}, before, [&](uint64_t old) {
        if (work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
            return old + work.compare_add;
        return old == work.compare_add ? work.swap : old;
    });
    if (!done)
        return peers().is_dying(peer.process) ? retry_later(Outcome::Next::no_answer) : refused(IBV_WC_REM_OP_ERR, id);
    const Segments result = {{0, 0, kBytes, reinterpret_cast<unsigned char *>(&before)}};
    if (m_transfer.move(result, local, false) != Transfer::Fault::none)
        return failed(IBV_WC_LOC_PROT_ERR);
    Outcome outcome;
    outcome.bytes = kBytes;
    outcome.source = peer.device;
    return outcome;
}

Outcome Requester::perform_datagram(const Qp &qp, const Work &work) {
    if (work.opcode != IBV_WR_SEND && work.opcode != IBV_WR_SEND_WITH_IMM)
        return failed(IBV_WC_LOC_QP_OP_ERR);
    Segments local;
    if (!gather(qp, work, false, local))
        return failed(IBV_WC_LOC_PROT_ERR);
    Outcome outcome;
    outcome.bytes = total(local);
    outcome.source = qp.entry->device;
    if (outcome.bytes > kMtu)
        return failed(IBV_WC_LOC_LEN_ERR);

    // Datagrams are not acknowledged: from here on a failure loses the message silently.
    QpEntry *peer = m_fabric.state().qps.find(work.qp_num);
    if (!peer || peer->type != IBV_QPT_UD || lid_of(peer->device) != work.lid || peer->qkey.load() != work.qkey ||
        !can_respond(qp_state(*peer)) || !is_link_up(qp.entry->device) || !is_link_up(peer->device) ||
        !peers().is_alive(peer->process))
        return outcome;
    const Taken taken = take_receive(work.qp_num);
    if (taken.state != Taken::State::taken)
        return outcome;

    Completion received{};
    received.wr_id = taken.receive.wr_id;
    received.qp_num = work.qp_num;
    received.opcode = IBV_WC_RECV;
    received.byte_len = static_cast<uint32_t>(outcome.bytes + kGrh);
    received.src_qp = qp.id;
    received.slid = lid_of(qp.entry->device);
    received.solicited = (work.flags & IBV_SEND_SOLICITED) != 0;
    if (work.opcode == IBV_WR_SEND_WITH_IMM) {
        received.wc_flags |= IBV_WC_WITH_IMM;
        received.imm_data = work.imm_data;
    }
    Segments remote;
    ibv_grh header{};
    if (work.global) {
        received.wc_flags |= IBV_WC_GRH;
        header.version_tclass_flow = htobe32(6u << 28);
        header.paylen = htobe16(static_cast<uint16_t>(outcome.bytes));
        header.next_hdr = 0x1b;
        header.hop_limit = 0xff;
        header.sgid = gid_of(qp.entry->device);
        header.dgid = gid_of(peer->device);
    }
    static_assert(sizeof header == kGrh);
    Segments message = {{0, 0, kGrh, reinterpret_cast<unsigned char *>(&header)}};
    message.insert(message.end(), local.begin(), local.end());
    if (!scatter(taken.receive, taken.device, taken.pd, remote))
        received.status = IBV_WC_LOC_PROT_ERR;
    else if (total(remote) < outcome.bytes + kGrh)
        received.status = IBV_WC_LOC_LEN_ERR;
    else {
        switch (m_transfer.move(message, remote, true)) {
        case Transfer::Fault::source:
            return failed(IBV_WC_LOC_PROT_ERR);
        case Transfer::Fault::target:
            received.status = IBV_WC_LOC_PROT_ERR;
            break;
        case Transfer::Fault::none:
            break;
        }
    }
    outcome.notices.push_back({taken.recv_cq, received});
    if (received.status != IBV_WC_SUCCESS)
        outcome.failed_qp = work.qp_num; // the receiver's error; the sender is not notified
    return outcome;
}

} // namespace softhca
