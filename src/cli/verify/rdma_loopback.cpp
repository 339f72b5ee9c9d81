// SPDX-License-Identifier: BSD-3-Clause
#include "rdma_loopback.h"

#include "cli/verbs.h"
#include "os/format.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace gaudi::cli::verify {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr unsigned kDepth = 32; // transfers under way at once

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

} // namespace

struct RdmaLoopback::Objects {
    Verbs verbs;
    ibv_context *context = nullptr;
    ibv_pd *pd = nullptr;
    ibv_cq *cq = nullptr;
    ibv_qp *qp = nullptr;
    ibv_mr *host = nullptr, *dmabuf = nullptr;
    void *host_memory = nullptr;

    ~Objects() {
        if (qp)
            verbs.destroy_qp(qp);
        for (ibv_mr *mr : {host, dmabuf})
            if (mr)
                verbs.dereg_mr(mr);
        if (cq)
            verbs.destroy_cq(cq);
        if (pd)
            verbs.dealloc_pd(pd);
        if (context)
            verbs.close_device(context);
    }
};

RdmaLoopback::RdmaLoopback() : m_objects(std::make_unique<Objects>()) {}
RdmaLoopback::~RdmaLoopback() = default;

OrSentence<std::unique_ptr<RdmaLoopback>> RdmaLoopback::open(const std::string &name) {
    const auto verbs = load_verbs();
    if (!verbs)
        return Sentence(verbs.error());
    std::unique_ptr<RdmaLoopback> loopback(new RdmaLoopback);
    Objects &objects = *loopback->m_objects;
    objects.verbs = *verbs;
    int count = 0;
    ibv_device **list = verbs->get_device_list(&count);
    for (int i = 0; list && i < count && !objects.context; ++i) {
        loopback->m_name = verbs->get_device_name(list[i]);
        if (!name.empty() && name != loopback->m_name)
            continue;
        objects.context = verbs->open_device(list[i]);
        ibv_port_attr port{};
        if (objects.context && name.empty() &&
            (verbs->query_port(objects.context, kPort, &port) != 0 || port.state != IBV_PORT_ACTIVE)) {
            verbs->close_device(objects.context);
            objects.context = nullptr;
        }
    }
    if (list)
        verbs->free_device_list(list);
    if (!objects.context)
        return Sentence(name.empty() ? "there is no RDMA device with an active port"
                                     : os::format("there is no RDMA device {} that opens", name));
    if (auto connected = loopback->connect(); !connected)
        return Sentence(connected.error());
    return loopback;
}

OrSentence<void> RdmaLoopback::connect() {
    Objects &objects = *m_objects;
    const Verbs &verbs = objects.verbs;
    const auto failed = [&](const char *call) {
        return Sentence(os::format("{} fails on {}: {}", call, m_name, std::strerror(errno)));
    };
    objects.pd = verbs.alloc_pd(objects.context);
    objects.cq = verbs.create_cq(objects.context, kDepth, nullptr, nullptr, 0);
    if (!objects.pd || !objects.cq)
        return failed(objects.pd ? "ibv_create_cq" : "ibv_alloc_pd");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = objects.cq;
    wanted.cap = {.max_send_wr = kDepth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    wanted.qp_type = IBV_QPT_RC;
    objects.qp = verbs.create_qp(objects.pd, &wanted);
    ibv_port_attr port{};
    if (!objects.qp || verbs.query_port(objects.context, kPort, &port) != 0)
        return failed(objects.qp ? "ibv_query_port" : "ibv_create_qp");

    ibv_gid gid{};
    int gid_index = 0;
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        ibv_gid found{};
        if (verbs.query_gid(objects.context, kPort, i, &found) == 0 && found.global.interface_id != 0) {
            gid = found;
            gid_index = i;
            break;
        }
    }
    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = kPort;
    init.qp_access_flags = kAccess;
    ibv_qp_attr receive{};
    receive.qp_state = IBV_QPS_RTR;
    receive.path_mtu = port.active_mtu;
    receive.dest_qp_num = objects.qp->qp_num;
    receive.max_dest_rd_atomic = 1;
    receive.min_rnr_timer = 12;
    receive.ah_attr.dlid = port.lid;
    receive.ah_attr.port_num = kPort;
    receive.ah_attr.is_global = port.link_layer == IBV_LINK_LAYER_ETHERNET ? 1 : 0;
    receive.ah_attr.grh.dgid = gid;
    receive.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
    receive.ah_attr.grh.hop_limit = 64;
    ibv_qp_attr send{};
    send.qp_state = IBV_QPS_RTS;
    send.timeout = 14;
    send.retry_cnt = 7;
    send.rnr_retry = 7;
    send.max_rd_atomic = 1;
    if (verbs.modify_qp(objects.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0 ||
        verbs.modify_qp(objects.qp, &receive,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0 ||
        verbs.modify_qp(objects.qp, &send,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        return failed("ibv_modify_qp");
    return {};
}

int RdmaLoopback::probe_dmabuf() const {
    if (!m_objects->verbs.reg_dmabuf_mr)
        return ENOSYS;
    errno = 0;
    ibv_mr *mr = m_objects->verbs.reg_dmabuf_mr(m_objects->pd, 0, 4096, 0, -1, kAccess);
    if (mr) {
        m_objects->verbs.dereg_mr(mr);
        return 0;
    }
    return errno;
}

OrSentence<void> RdmaLoopback::register_host(void *memory, std::size_t length) {
    m_objects->host_memory = memory;
    m_objects->host = m_objects->verbs.reg_mr(m_objects->pd, memory, length, kAccess);
    if (!m_objects->host)
        return Sentence(os::format("ibv_reg_mr fails on {}: {}", m_name, std::strerror(errno)));
    return {};
}

OrSentence<void> RdmaLoopback::register_local_dmabuf(int dmabuf, std::size_t length) {
    if (!m_objects->verbs.reg_dmabuf_mr)
        return Sentence("this libibverbs has no ibv_reg_dmabuf_mr");
    m_objects->host_memory = nullptr; // the registration begins at address 0
    m_objects->host = m_objects->verbs.reg_dmabuf_mr(m_objects->pd, 0, length, 0, dmabuf, kAccess);
    if (!m_objects->host)
        return Sentence(os::format("ibv_reg_dmabuf_mr fails on {}: {}", m_name, std::strerror(errno)));
    return {};
}

OrSentence<void> RdmaLoopback::register_dmabuf(int dmabuf, std::size_t length) {
    if (!m_objects->verbs.reg_dmabuf_mr)
        return Sentence("this libibverbs has no ibv_reg_dmabuf_mr");
    if (m_objects->dmabuf)
        m_objects->verbs.dereg_mr(std::exchange(m_objects->dmabuf, nullptr));
    m_objects->dmabuf = m_objects->verbs.reg_dmabuf_mr(m_objects->pd, 0, length, 0, dmabuf, kAccess);
    if (!m_objects->dmabuf)
        return Sentence(os::format("ibv_reg_dmabuf_mr fails on {}: {}", m_name, std::strerror(errno)));
    return {};
}

OrSentence<void> RdmaLoopback::write(std::uint32_t length) { return transfer({.write = true, .size = length}); }
OrSentence<void> RdmaLoopback::read(std::uint32_t length) { return transfer({.write = false, .size = length}); }

OrSentence<void> RdmaLoopback::post(const Pieces &pieces, std::uint64_t number) {
    const Objects &objects = *m_objects;
    const std::uint64_t offset = number * pieces.size;
    ibv_sge piece{};
    piece.addr = reinterpret_cast<std::uint64_t>(objects.host_memory) + pieces.local_offset + offset;
    piece.length = pieces.size;
    piece.lkey = objects.host->lkey;
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = pieces.write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = pieces.remote_offset + offset; // the registration begins at address 0
    request.wr.rdma.rkey = objects.dmabuf->rkey;
    ibv_send_wr *bad = nullptr;
    if (const int code = ibv_post_send(objects.qp, &request, &bad); code != 0)
        return Sentence(os::format("ibv_post_send fails on {}: {}", m_name, std::strerror(code)));
    return {};
}

OrSentence<void> RdmaLoopback::wait_for_one(bool write) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ibv_wc end{};
    int found = 0;
    while ((found = ibv_poll_cq(m_objects->cq, 1, &end)) == 0)
        if (std::chrono::steady_clock::now() > limit)
            return Sentence(os::format("an RDMA {} on {} did not end in 10 s", write ? "write" : "read", m_name));
    if (found < 0 || end.status != IBV_WC_SUCCESS)
        return Sentence(os::format("an RDMA {} on {} ended with status {}", write ? "write" : "read", m_name,
                                   static_cast<int>(end.status)));
    return {};
}

OrSentence<void> RdmaLoopback::transfer(const Pieces &pieces) {
    for (std::uint64_t posted = 0, ended = 0; ended < pieces.count;) {
        if (posted < pieces.count && posted - ended < kDepth) {
            if (auto done = post(pieces, posted); !done)
                return done;
            ++posted;
        } else {
            if (auto done = wait_for_one(pieces.write); !done)
                return done;
            ++ended;
        }
    }
    return {};
}

} // namespace gaudi::cli::verify
