// SPDX-License-Identifier: BSD-3-Clause
// Queue pair states, completion channels, shared receive queues, and objects in use.
#include "hca.h"

#include <thread>

using namespace hca;

namespace {

class QueuePair : public HcaTest {
protected:
    Node node;
    std::vector<unsigned char> data = pattern(4096);
    ibv_mr *mr = node.reg(data);

    static int modify(ibv_qp *qp, ibv_qp_state to, int mask = 0) {
        ibv_qp_attr attr{};
        attr.qp_state = to;
        attr.port_num = 1;
        attr.ah_attr.port_num = 1;
        attr.path_mtu = IBV_MTU_1024;
        return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
    }
    int make(ibv_qp_init_attr init) {
        init.send_cq = init.send_cq ? init.send_cq : node.send_cq;
        init.recv_cq = node.recv_cq;
        ibv_qp *qp = ibv_create_qp(node.pd, &init);
        if (!qp)
            return errno;
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        return 0;
    }
};

// ---- states

TEST_F(QueuePair, queue_pair_reaches_every_state_in_order) {
    ibv_qp *qp = node.queue_pair();
    EXPECT_EQ(state(qp), IBV_QPS_RESET);
    EXPECT_EQ(to_init(qp), 0);
    EXPECT_EQ(state(qp), IBV_QPS_INIT);
    EXPECT_EQ(to_rtr(qp, {qp->qp_num, node.lid(), 0, 0}), 0);
    EXPECT_EQ(to_rts(qp), 0);
    EXPECT_EQ(qp->state, IBV_QPS_RTS);
    EXPECT_EQ(modify(qp, IBV_QPS_SQD), 0);
    EXPECT_EQ(modify(qp, IBV_QPS_RTS), 0);
    EXPECT_EQ(to_error(qp), 0);
    EXPECT_EQ(modify(qp, IBV_QPS_RESET), 0);
    EXPECT_EQ(to_init(qp), 0);
}

TEST_F(QueuePair, transition_that_skips_a_state_is_refused) {
    ibv_qp *qp = node.queue_pair();
    EXPECT_EQ(modify(qp, IBV_QPS_RTR), EINVAL);
    EXPECT_EQ(modify(qp, IBV_QPS_RTS), EINVAL);
    EXPECT_EQ(to_init(qp), 0);
    EXPECT_EQ(to_rts(qp), EINVAL);
    EXPECT_EQ(to_error(qp), 0);
    EXPECT_EQ(to_init(qp), EINVAL);
}

TEST_F(QueuePair, transition_without_a_required_attribute_is_refused) {
    ibv_qp *qp = node.queue_pair();
    EXPECT_EQ(modify(qp, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX), EINVAL); // without access flags
    EXPECT_EQ(to_init(qp), 0);
    EXPECT_EQ(modify(qp, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU), EINVAL);
    ibv_qp *datagram = node.queue_pair({.type = IBV_QPT_UD});
    EXPECT_EQ(modify(datagram, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX), EINVAL); // without qkey
}

TEST_F(QueuePair, impossible_attribute_values_are_refused) {
    ibv_qp *qp = node.queue_pair();
    ibv_qp_attr attr{};
    const auto init = [&](int more = 0) {
        attr.qp_state = IBV_QPS_INIT;
        return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | more);
    };
    attr.port_num = 2;
    EXPECT_EQ(init(), EINVAL);
    attr.port_num = 1;
    attr.pkey_index = 1;
    EXPECT_EQ(init(), EINVAL);
    attr.pkey_index = 0;
    EXPECT_EQ(init(IBV_QP_ALT_PATH), EINVAL);
    attr.cur_qp_state = IBV_QPS_RTS;
    EXPECT_EQ(init(IBV_QP_CUR_STATE), EINVAL);
    EXPECT_EQ(init(), 0);
    EXPECT_EQ(to_rtr(qp, {}, {.rnr_timer = 32}), EINVAL);
    EXPECT_EQ(to_rtr(qp, {}, {.rd_atomic = 17}), EINVAL);
    EXPECT_EQ(to_rtr(qp), 0);
    EXPECT_EQ(to_rts(qp, {.retry_count = 8}), EINVAL);
    EXPECT_EQ(to_rts(qp, {.rnr_retry = 8}), EINVAL);
    EXPECT_EQ(to_rts(qp, {.timeout = 32}), EINVAL);
}

TEST_F(QueuePair, query_returns_the_attributes_set) {
    const Pair pair(node, node, {.retry_count = 3, .rnr_retry = 5, .timeout = 9, .rnr_timer = 4});
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(pair.here, &attr, ~0, &init), 0);
    EXPECT_EQ(attr.dest_qp_num, pair.there->qp_num);
    EXPECT_EQ(attr.ah_attr.dlid, node.lid());
    EXPECT_EQ(attr.retry_cnt, 3);
    EXPECT_EQ(attr.rnr_retry, 5);
    EXPECT_EQ(attr.timeout, 9);
    EXPECT_EQ(attr.min_rnr_timer, 4);
    EXPECT_EQ(attr.cap.max_inline_data, 256u);
    EXPECT_EQ(init.qp_type, IBV_QPT_RC);
}

TEST_F(QueuePair, post_in_unconnected_states_is_refused) {
    ibv_qp *qp = node.queue_pair();
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(write.post(qp), EINVAL);
    EXPECT_EQ(receive(qp, mr, 1), EINVAL);
    EXPECT_EQ(to_init(qp), 0);
    EXPECT_EQ(receive(qp, mr, 1), 0);
    EXPECT_EQ(write.post(qp), EINVAL);
    EXPECT_EQ(to_rtr(qp, {qp->qp_num, node.lid(), 0, 0}), 0);
    EXPECT_EQ(write.post(qp), EINVAL);
}

TEST_F(QueuePair, error_state_flushes_both_queues) {
    const Pair pair(node, node);
    for (uint64_t i = 0; i < 3; ++i)
        ASSERT_EQ(receive(pair.here, mr, 10 + i), 0);
    for (uint64_t i = 0; i < 3; ++i) {
        Request send(IBV_WR_SEND, i); // no receive is ever posted
        ASSERT_EQ(send.piece(data.data(), 10, mr->lkey).post(pair.here), 0);
    }
    EXPECT_EQ(to_error(pair.here), 0);
    for (uint64_t i = 0; i < 3; ++i) {
        const ibv_wc sent = wait(node.send_cq), got = wait(node.recv_cq);
        EXPECT_EQ(sent.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(sent.wr_id, i);
        EXPECT_EQ(got.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(got.wr_id, 10 + i);
    }
    // Later requests are flushed as well.
    ASSERT_EQ(receive(pair.here, mr, 20), 0);
    EXPECT_EQ(wait(node.recv_cq).status, IBV_WC_WR_FLUSH_ERR);
    Request send(IBV_WR_SEND, 21);
    EXPECT_EQ(status_of(pair.here, send.piece(data.data(), 10, mr->lkey)), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(QueuePair, requests_after_a_failed_one_are_flushed) {
    const Pair pair(node, node, {.rnr_retry = 7, .rnr_timer = 20}); // the first one delays the others
    std::vector<Request> requests;
    requests.emplace_back(IBV_WR_SEND, 1u).piece(data.data(), 10, mr->lkey);
    requests.emplace_back(IBV_WR_RDMA_WRITE, 2u).piece(data.data(), 10, mr->lkey).remote(uint64_t{0}, 0);
    requests.emplace_back(IBV_WR_RDMA_WRITE, 3u).piece(data.data(), 10, mr->lkey).remote(mr);
    for (Request &request : requests)
        ASSERT_EQ(request.post(pair.here), 0);
    ASSERT_EQ(receive(pair.there, mr, 9), 0);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_REM_ACCESS_ERR);
    const ibv_wc last = wait(node.send_cq);
    EXPECT_EQ(last.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(last.wr_id, 3u);
}

TEST_F(QueuePair, drained_send_queue_delays_requests) {
    const Pair pair(node, node);
    EXPECT_EQ(modify(pair.here, IBV_QPS_SQD), 0);
    Request write(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(write.piece(data.data(), 10, mr->lkey).remote(mr, 100).post(pair.here), 0);
    ibv_wc none{};
    EXPECT_EQ(ibv_poll_cq(node.send_cq, 1, &none), 0);
    EXPECT_EQ(modify(pair.here, IBV_QPS_RTS), 0);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
}

TEST_F(QueuePair, reset_drops_requests_and_completions) {
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(write.piece(data.data(), 10, mr->lkey).remote(mr, 100).post(pair.here), 0);
    ASSERT_EQ(receive(pair.here, mr, 1), 0);
    EXPECT_EQ(modify(pair.here, IBV_QPS_RESET), 0);
    ibv_wc none{};
    EXPECT_EQ(ibv_poll_cq(node.send_cq, 1, &none), 0);
    EXPECT_EQ(ibv_poll_cq(node.recv_cq, 1, &none), 0);
}

TEST_F(QueuePair, unsupported_types_and_sizes_are_refused) {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    EXPECT_EQ(make(init), 0);
    init.qp_type = IBV_QPT_UC;
    EXPECT_EQ(make(init), EOPNOTSUPP);
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = 16385;
    EXPECT_EQ(make(init), EINVAL);
    init.cap = {};
    init.cap.max_recv_wr = 16385;
    EXPECT_EQ(make(init), EINVAL);
    init.cap = {};
    init.cap.max_send_sge = 17;
    EXPECT_EQ(make(init), EINVAL);
    init.cap = {};
    init.cap.max_recv_sge = 17;
    EXPECT_EQ(make(init), EINVAL);
    init.cap = {};
    init.cap.max_inline_data = 1025;
    EXPECT_EQ(make(init), EINVAL);
    init = {};
    init.qp_type = IBV_QPT_RC;
    EXPECT_EQ(ibv_create_qp(node.pd, &init), nullptr); // without completion queues
    EXPECT_EQ(errno, EINVAL);
}

// ---- completion queues and channels

class CompletionChannel : public QueuePair {
protected:
    ibv_comp_channel *channel = ibv_create_comp_channel(node.context);
    ibv_cq *cq = ibv_create_cq(node.context, 16, this, channel, 0);

    ~CompletionChannel() override {
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    }
    bool ready(int timeout_ms = 0) const {
        pollfd event{channel->fd, POLLIN, 0};
        return poll(&event, 1, timeout_ms) == 1;
    }
    /// A queue pair connected to itself that completes on `cq`.
    ibv_qp *looped() {
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq;
        init.qp_type = IBV_QPT_RC;
        init.cap = {16, 16, 1, 1, 0};
        ibv_qp *qp = ibv_create_qp(node.pd, &init);
        EXPECT_NE(qp, nullptr);
        connect(qp, {qp->qp_num, node.lid(), 0, 0});
        return qp;
    }
    void write(ibv_qp *qp) {
        Request request(IBV_WR_RDMA_WRITE);
        ASSERT_EQ(request.piece(data.data(), 10, mr->lkey).remote(mr, 100).post(qp), 0);
    }
};

TEST_F(CompletionChannel, armed_queue_notifies_once) {
    ibv_qp *qp = looped();
    write(qp);
    wait(cq);
    EXPECT_FALSE(ready()); // not armed
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    write(qp);
    write(qp);
    ASSERT_TRUE(ready(60'000));
    ibv_cq *which = nullptr;
    void *context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &which, &context), 0);
    EXPECT_EQ(which, cq);
    EXPECT_EQ(context, this);
    wait(cq);
    wait(cq);
    EXPECT_FALSE(ready());
    ibv_ack_cq_events(cq, 1);
    ibv_ack_cq_events(cq, 0);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(CompletionChannel, nonblocking_channel_returns_eagain) {
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
    ibv_cq *which = nullptr;
    void *context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel, &which, &context), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(CompletionChannel, solicited_only_ignores_other_completions) {
    ibv_qp *qp = looped();
    ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
    write(qp);
    wait(cq);
    EXPECT_FALSE(ready());
    ASSERT_EQ(receive(qp, mr, 1), 0);
    Request send(IBV_WR_SEND, 1, IBV_SEND_SOLICITED);
    ASSERT_EQ(send.piece(data.data(), 10, mr->lkey).post(qp), 0);
    EXPECT_TRUE(ready(60'000));
    wait(cq);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    ibv_cq *which = nullptr;
    void *context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &which, &context), 0);
    ibv_ack_cq_events(which, 1);
}

TEST_F(CompletionChannel, solicited_only_is_notified_of_errors) {
    ibv_qp *qp = looped();
    ASSERT_EQ(receive(qp, mr, 1), 0);
    ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
    EXPECT_EQ(to_error(qp), 0);
    EXPECT_TRUE(ready(60'000));
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(CompletionChannel, overrun_raises_one_event) {
    ibv_qp *qp = looped();
    for (int i = 0; i < 20; ++i)
        write(qp);
    ibv_async_event event{};
    EXPECT_EQ(wait_event(node.context, &event), IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event.element.cq, cq);
    EXPECT_TRUE(no_event(node.context));
    for (int i = 0; i < 16; ++i)
        wait(cq);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(CompletionChannel, destruction_of_used_objects_is_refused) {
    ibv_qp *qp = looped();
    EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(CompletionChannel, impossible_queue_sizes_are_refused) {
    EXPECT_EQ(ibv_create_cq(node.context, 0, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_create_cq(node.context, 16385, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(ibv_create_cq(node.context, 1, nullptr, nullptr, 1), nullptr); // there is only one vector
    EXPECT_EQ(errno, EINVAL);
}

// ---- shared receive queues

class SharedReceiveQueue : public QueuePair {
protected:
    ibv_srq *srq = nullptr;

    SharedReceiveQueue() {
        ibv_srq_init_attr init{};
        init.attr.max_wr = 8;
        init.attr.max_sge = 1;
        srq = ibv_create_srq(node.pd, &init);
    }
    ~SharedReceiveQueue() override {
        if (srq) {
            EXPECT_EQ(ibv_destroy_srq(srq), 0);
        }
    }
};

TEST_F(SharedReceiveQueue, receives_serve_several_queue_pairs) {
    {
        Node sender(1);
        const Pair one(sender, node, {}, {}, {.srq = srq}), two(sender, node, {}, {}, {.srq = srq});
        const ibv_mr *from = sender.reg(data);
        EXPECT_EQ(receive(one.there, mr, 1, 100, 0), 0);
        EXPECT_EQ(receive(two.there, mr, 2, 100, 100), 0);
        for (ibv_qp *qp : {two.here, one.here}) {
            Request send(IBV_WR_SEND);
            EXPECT_EQ(status_of(qp, send.piece(data.data(), 50, from->lkey)), IBV_WC_SUCCESS);
        }
        const ibv_wc first = wait(node.recv_cq), second = wait(node.recv_cq);
        EXPECT_EQ(first.wr_id, 1u);
        EXPECT_EQ(first.qp_num, two.there->qp_num);
        EXPECT_EQ(second.wr_id, 2u);
        EXPECT_EQ(second.qp_num, one.there->qp_num);
        EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
        ibv_recv_wr wr{}, *bad = nullptr;
        EXPECT_EQ(ibv_post_recv(one.there, &wr, &bad), EINVAL); // it uses the shared queue
        node.destroy(one.there);
        node.destroy(two.there);
    }
}

TEST_F(SharedReceiveQueue, limit_raises_one_event) {
    Node sender(1);
    const Pair pair(sender, node, {}, {}, {.srq = srq});
    const ibv_mr *from = sender.reg(data);
    for (uint64_t i = 0; i < 4; ++i)
        ASSERT_EQ(receive(pair.there, mr, i, 100), 0);
    ibv_srq_attr attr{};
    attr.srq_limit = 3;
    EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
    EXPECT_EQ(attr.srq_limit, 3u);
    EXPECT_EQ(attr.max_wr, 8u);
    for (int i = 0; i < 3; ++i) {
        Request send(IBV_WR_SEND);
        EXPECT_EQ(status_of(pair.here, send.piece(data.data(), 50, from->lkey)), IBV_WC_SUCCESS);
    }
    ibv_async_event event{};
    EXPECT_EQ(wait_event(node.context, &event), IBV_EVENT_SRQ_LIMIT_REACHED);
    EXPECT_EQ(event.element.srq, srq);
    EXPECT_TRUE(no_event(node.context));
    node.destroy(pair.there);
}

TEST_F(SharedReceiveQueue, error_of_a_queue_pair_raises_last_wqe_event) {
    const Pair pair(node, node, {}, {.srq = srq}, {.srq = srq});
    EXPECT_EQ(to_error(pair.here), 0);
    ibv_async_event event{};
    EXPECT_EQ(wait_event(node.context, &event), IBV_EVENT_QP_LAST_WQE_REACHED);
    EXPECT_EQ(event.element.qp, pair.here);
    node.destroy(pair.here);
    node.destroy(pair.there);
}

TEST_F(SharedReceiveQueue, events_of_destroyed_objects_are_dropped) {
    const Pair pair(node, node, {}, {.srq = srq}, {.srq = srq});
    EXPECT_EQ(to_error(pair.here), 0);
    node.destroy(pair.here);
    EXPECT_EQ(to_error(pair.there), 0);
    ibv_async_event event{};
    EXPECT_EQ(wait_event(node.context, &event), IBV_EVENT_QP_LAST_WQE_REACHED);
    EXPECT_EQ(event.element.qp, pair.there);
    node.destroy(pair.there);
}

TEST_F(SharedReceiveQueue, queue_pair_is_destroyed_while_another_thread_reads_its_event) {
    ibv_qp *const last = node.queue_pair({.srq = srq});
    std::thread reader([&] {
        for (ibv_async_event event{}; event.element.qp != last;)
            ASSERT_EQ(wait_event(node.context, &event), IBV_EVENT_QP_LAST_WQE_REACHED);
    });
    for (int i = 0; i < 300; ++i) {
        ibv_qp *qp = node.queue_pair({.srq = srq});
        EXPECT_EQ(to_error(qp), 0);
        node.destroy(qp);
    }
    EXPECT_EQ(to_error(last), 0);
    reader.join();
    node.destroy(last);
}

TEST_F(SharedReceiveQueue, impossible_attributes_are_refused) {
    ibv_srq_init_attr init{};
    EXPECT_EQ(ibv_create_srq(node.pd, &init), nullptr);
    init.attr.max_wr = 16385;
    EXPECT_EQ(ibv_create_srq(node.pd, &init), nullptr);
    init.attr.max_wr = 1;
    init.attr.max_sge = 17;
    EXPECT_EQ(ibv_create_srq(node.pd, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
    ibv_srq_attr attr{};
    attr.srq_limit = 9;
    EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
    for (int i = 0; i < 8; ++i) {
        ibv_recv_wr wr{}, *bad = nullptr;
        EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
    }
    ibv_recv_wr wr{}, *bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
    wr.num_sge = 2;
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
}

} // namespace
