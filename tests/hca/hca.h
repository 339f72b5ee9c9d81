// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the tests of the software HCA. Each test is a process of its own (ctest runs them so) with a fabric in a
// fresh directory: set variables with `set` before the first call of the library.
#pragma once

#include "soft/soft.h"

#include <infiniband/verbs.h>

#include <poll.h>

#include <optional>

namespace hca {

using soft::Child;
using soft::pattern;
using soft::receive_byte;
using soft::send_byte;
using soft::set;

inline constexpr int kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

class HcaTest : public soft::SoftTest {
protected:
    const std::string &fabric() const { return m_fabric.name(); }

private:
    soft::FreshDirectory m_fabric{"SOFTHCA_DIR", "softhca"};
};

/// The address of a queue pair, for its peer.
struct Peer {
    uint32_t qp_num = 0;
    uint16_t lid = 0;
    uint64_t address = 0;
    uint32_t rkey = 0;
};

inline void give(int socket, const Peer &peer) {
    ASSERT_EQ(write(socket, &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
}
inline Peer take(int socket) {
    Peer peer;
    EXPECT_EQ(recv(socket, &peer, sizeof peer, MSG_WAITALL), static_cast<ssize_t>(sizeof peer));
    return peer;
}

/// Connection attributes that tests change.
struct Link {
    uint8_t retry_count = 7, rnr_retry = 7, timeout = 8, rnr_timer = 1, rd_atomic = 16;
    int access = kAll;
};

struct QpOptions {
    ibv_qp_type type = IBV_QPT_RC;
    ibv_srq *srq = nullptr;
    uint32_t send_wr = 128, recv_wr = 128, sge = 4, inline_data = 256;
    bool signal_all = false;
};

/// A device with a protection domain and two completion queues.
class Node {
public:
    explicit Node(int device = 0, int cqe = 1024, ibv_comp_channel *channel = nullptr) {
        int count = 0;
        ibv_device **list = ibv_get_device_list(&count);
        EXPECT_GT(count, device);
        context = ibv_open_device(list[device]);
        ibv_free_device_list(list);
        EXPECT_NE(context, nullptr) << strerror(errno);
        pd = ibv_alloc_pd(context);
        send_cq = ibv_create_cq(context, cqe, nullptr, channel, 0);
        recv_cq = ibv_create_cq(context, cqe, nullptr, channel, 0);
        EXPECT_TRUE(pd && send_cq && recv_cq) << strerror(errno);
    }
    ~Node() {
        for (ibv_qp *qp : m_qps)
            EXPECT_EQ(ibv_destroy_qp(qp), 0);
        for (ibv_mr *mr : m_mrs)
            EXPECT_EQ(ibv_dereg_mr(mr), 0);
        EXPECT_EQ(ibv_destroy_cq(send_cq), 0);
        EXPECT_EQ(ibv_destroy_cq(recv_cq), 0);
        EXPECT_EQ(ibv_dealloc_pd(pd), 0);
        EXPECT_EQ(ibv_close_device(context), 0);
    }
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;

    uint16_t lid() const {
        ibv_port_attr port{};
        EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
        return port.lid;
    }
    ibv_qp *queue_pair(const QpOptions &options = {}) {
        ibv_qp_init_attr init{};
        init.send_cq = send_cq;
        init.recv_cq = recv_cq;
        init.srq = options.srq;
        init.qp_type = options.type;
        init.sq_sig_all = options.signal_all;
        init.cap = {options.send_wr, options.recv_wr, options.sge, options.sge, options.inline_data};
        ibv_qp *qp = ibv_create_qp(pd, &init);
        EXPECT_NE(qp, nullptr) << strerror(errno);
        m_qps.push_back(qp);
        return qp;
    }
    void destroy(ibv_qp *qp) {
        std::erase(m_qps, qp);
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    ibv_mr *reg(void *data, size_t size, int access = kAll) {
        ibv_mr *mr = ibv_reg_mr(pd, data, size, access);
        EXPECT_NE(mr, nullptr) << strerror(errno);
        m_mrs.push_back(mr);
        return mr;
    }
    template <class T>
    ibv_mr *reg(std::vector<T> &data, int access = kAll) {
        return reg(data.data(), data.size() * sizeof(T), access);
    }
    void adopt(ibv_mr *mr) { m_mrs.push_back(mr); }
    void dereg(ibv_mr *mr) {
        std::erase(m_mrs, mr);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }

    ibv_context *context = nullptr;
    ibv_pd *pd = nullptr;
    ibv_cq *send_cq = nullptr, *recv_cq = nullptr;

private:
    std::vector<ibv_qp *> m_qps;
    std::vector<ibv_mr *> m_mrs;
};

inline int to_init(ibv_qp *qp, int access = kAll) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = 0x11111111;
    attr.qp_access_flags = static_cast<unsigned>(access);
    const int rights = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | rights);
}

inline int to_rtr(ibv_qp *qp, const Peer &peer = {}, const Link &link = {}) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    if (qp->qp_type == IBV_QPT_UD)
        return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp_num;
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = 1;
    attr.max_dest_rd_atomic = link.rd_atomic;
    attr.min_rnr_timer = link.rnr_timer;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

inline int to_rts(ibv_qp *qp, const Link &link = {}) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    if (qp->qp_type == IBV_QPT_UD)
        return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    attr.timeout = link.timeout;
    attr.retry_cnt = link.retry_count;
    attr.rnr_retry = link.rnr_retry;
    attr.max_rd_atomic = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

inline int to_error(ibv_qp *qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

inline ibv_qp_state state(ibv_qp *qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

inline void connect(ibv_qp *qp, const Peer &peer, const Link &link = {}) {
    EXPECT_EQ(to_init(qp, link.access), 0);
    EXPECT_EQ(to_rtr(qp, peer, link), 0);
    EXPECT_EQ(to_rts(qp, link), 0);
}

/// Two connected queue pairs in one process.
struct Pair {
    Pair(Node &from, Node &to, const Link &link = {}, const QpOptions &options = {}, const QpOptions &to_options = {})
        : here(from.queue_pair(options)), there(to.queue_pair(to_options)) {
        connect(here, {there->qp_num, to.lid(), 0, 0}, link);
        connect(there, {here->qp_num, from.lid(), 0, 0}, link);
    }
    ibv_qp *here, *there;
};

// ---- work -------------------------------------------------------------------------------------------------------

/// A work request and the memory that it points to.
class Request {
public:
    explicit Request(ibv_wr_opcode opcode, uint64_t id = 1, unsigned flags = IBV_SEND_SIGNALED) {
        m_wr.opcode = opcode;
        m_wr.wr_id = id;
        m_wr.send_flags = flags;
    }
    Request &piece(const void *data, size_t size, uint32_t lkey) {
        m_sges.push_back({reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(size), lkey});
        return *this;
    }
    Request &all(const ibv_mr *mr) { return piece(mr->addr, mr->length, mr->lkey); }
    Request &remote(uint64_t address, uint32_t rkey) {
        m_wr.wr.rdma.remote_addr = address;
        m_wr.wr.rdma.rkey = rkey;
        return *this;
    }
    Request &remote(const ibv_mr *mr, uint64_t offset = 0) {
        return remote(reinterpret_cast<uint64_t>(mr->addr) + offset, mr->rkey);
    }
    Request &operands(uint64_t address, uint32_t rkey, uint64_t compare_add, uint64_t swap = 0) {
        m_wr.wr.atomic.remote_addr = address;
        m_wr.wr.atomic.rkey = rkey;
        m_wr.wr.atomic.compare_add = compare_add;
        m_wr.wr.atomic.swap = swap;
        return *this;
    }
    Request &immediate(uint32_t value) {
        m_wr.imm_data = value;
        return *this;
    }
    Request &datagram(ibv_ah *ah, uint32_t qp_num, uint32_t qkey = 0x11111111) {
        m_wr.wr.ud = {ah, qp_num, qkey};
        return *this;
    }
    int post(ibv_qp *qp) {
        m_wr.sg_list = m_sges.data();
        m_wr.num_sge = static_cast<int>(m_sges.size());
        ibv_send_wr *bad = nullptr;
        return ibv_post_send(qp, &m_wr, &bad);
    }

private:
    ibv_send_wr m_wr{};
    std::vector<ibv_sge> m_sges;
};

inline int receive(ibv_qp *qp, const ibv_mr *mr, uint64_t id, size_t size = SIZE_MAX, size_t offset = 0) {
    ibv_sge sge{};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    if (mr) {
        sge = {reinterpret_cast<uint64_t>(mr->addr) + offset,
               static_cast<uint32_t>(std::min(size, mr->length - offset)), mr->lkey};
        wr.sg_list = &sge;
        wr.num_sge = 1;
    }
    return qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

/// The next completion; fails the test when none comes.
inline ibv_wc wait(ibv_cq *cq) {
    ibv_wc wc{};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int got = 0;
    while ((got = ibv_poll_cq(cq, 1, &wc)) == 0 && std::chrono::steady_clock::now() < until)
        sched_yield();
    EXPECT_EQ(got, 1) << "no completion came";
    return wc;
}

inline ibv_wc_status status_of(ibv_qp *qp, Request &request) {
    EXPECT_EQ(request.post(qp), 0);
    return wait(qp->send_cq).status;
}

/// The type of the next asynchronous event, which is acknowledged; fails the test when none comes.
inline ibv_event_type wait_event(ibv_context *context, ibv_async_event *out = nullptr) {
    pollfd ready{context->async_fd, POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 60'000), 1) << "no event came";
    ibv_async_event event{};
    if (ready.revents == 0)
        return IBV_EVENT_GID_CHANGE;
    EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    ibv_ack_async_event(&event);
    if (out)
        *out = event;
    return event.event_type;
}

inline bool no_event(ibv_context *context) {
    pollfd ready{context->async_fd, POLLIN, 0};
    return poll(&ready, 1, 0) == 0;
}

} // namespace hca
