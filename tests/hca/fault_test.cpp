// SPDX-License-Identifier: BSD-3-Clause
// Injected faults: refused calls, links that go down, queue pairs that fail.
#include "hca.h"

using namespace hca;

namespace {

class Faults : public HcaTest {
protected:
    std::vector<unsigned char> data = std::vector<unsigned char>(100);

    int probe(Node &node) {
        EXPECT_EQ(ibv_reg_dmabuf_mr(node.pd, 0, 4096, 0, -1, kAll), nullptr);
        return errno;
    }
};

TEST_F(Faults, reg_dmabuf_mr_fails_with_eopnotsupp) {
    set("SOFTHCA_FAULTS", "reg_dmabuf_mr=EOPNOTSUPP");
    Node node;
    EXPECT_EQ(probe(node), EOPNOTSUPP);
}

TEST_F(Faults, reg_dmabuf_mr_fails_with_524) {
    set("SOFTHCA_FAULTS", "reg_dmabuf_mr=524");
    Node node;
    EXPECT_EQ(probe(node), 524);
}

TEST_F(Faults, reg_dmabuf_mr_fails_with_enotsupp) {
    set("SOFTHCA_FAULTS", "ibv_reg_dmabuf_mr=ENOTSUPP");
    Node node;
    EXPECT_EQ(probe(node), 524);
}

TEST_F(Faults, second_call_fails_after_a_good_probe) {
    set("SOFTHCA_FAULTS", "reg_dmabuf_mr#2+=EPERM");
    Node node;
    EXPECT_EQ(probe(node), EBADF);
    EXPECT_EQ(probe(node), EPERM);
    EXPECT_EQ(probe(node), EPERM);
}

TEST_F(Faults, rule_with_device_and_number_fails_one_call) {
    set("SOFTHCA_FAULTS", "reg_dmabuf_mr@1#2=EIO;reg_dmabuf_mr@0#1=ENOSPC");
    Node first(0), second(1);
    EXPECT_EQ(probe(first), ENOSPC);
    EXPECT_EQ(probe(first), EBADF);
    EXPECT_EQ(probe(second), EBADF);
    EXPECT_EQ(probe(second), EIO);
    EXPECT_EQ(probe(second), EBADF);
}

TEST_F(Faults, limit_counts_live_regions) {
    set("SOFTHCA_FAULTS", "reg_mr@0=limit:2");
    Node node, other(1);
    ibv_mr *one = node.reg(data);
    node.reg(data);
    EXPECT_EQ(ibv_reg_mr(node.pd, data.data(), 1, kAll), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    for (int i = 0; i < 3; ++i)
        other.reg(data);
    node.dereg(one);
    node.reg(data);
}

TEST_F(Faults, every_function_fails_on_request) {
    set("SOFTHCA_FAULTS", "open_device#2=EMFILE;alloc_pd#2=ENOMEM;create_comp_channel=EMFILE;create_cq#3=ENOMEM;"
                          "create_srq=ENOMEM;create_qp=ENOSPC;modify_qp=EIO;create_ah=ENOMEM;query_port=EIO;"
                          "query_device=EIO;post_recv=EIO;post_send=EIO");
    Node node;
    EXPECT_EQ(ibv_open_device(node.context->device), nullptr);
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(ibv_alloc_pd(node.context), nullptr);
    EXPECT_EQ(ibv_create_comp_channel(node.context), nullptr);
    EXPECT_EQ(ibv_create_cq(node.context, 1, nullptr, nullptr, 0), nullptr);
    ibv_srq_init_attr srq{};
    EXPECT_EQ(ibv_create_srq(node.pd, &srq), nullptr);
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_create_qp(node.pd, &init), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    ibv_ah_attr path{};
    EXPECT_EQ(ibv_create_ah(node.pd, &path), nullptr);
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(node.context, 1, &port), EIO);
    ibv_device_attr device{};
    EXPECT_EQ(ibv_query_device(node.context, &device), EIO);
}

TEST_F(Faults, post_and_modify_fail_on_request) {
    set("SOFTHCA_FAULTS", "modify_qp#4=EIO;post_send#2=ENOMEM;post_recv#2=ENOMEM");
    Node node;
    const ibv_mr *mr = node.reg(data);
    ibv_qp *qp = node.queue_pair();
    connect(qp, {qp->qp_num, node.lid(), 0, 0});
    EXPECT_EQ(to_error(qp), EIO);
    EXPECT_EQ(receive(qp, mr, 1), 0);
    EXPECT_EQ(receive(qp, mr, 1), ENOMEM);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(qp, write), IBV_WC_SUCCESS);
    EXPECT_EQ(write.post(qp), ENOMEM);
}

TEST_F(Faults, link_down_and_up_raise_port_events) {
    set("SOFTHCA_FAULTS", "post_send#2=link_down;query_port#6=link_up");
    Node node, other(1);
    const ibv_mr *mr = node.reg(data), *to = other.reg(data);
    const Pair pair(node, other, {.retry_count = 1, .timeout = 1}); // one retry per port
    Request write(IBV_WR_RDMA_WRITE);
    write.piece(data.data(), 10, mr->lkey).remote(to);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_RETRY_EXC_ERR);
    ibv_async_event event{};
    EXPECT_EQ(wait_event(node.context, &event), IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.element.port_num, 1);
    EXPECT_TRUE(no_event(other.context));
    ibv_port_attr port{};
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(ibv_query_port(node.context, 1, &port), 0);
        if (i < 3) {
            EXPECT_EQ(port.state, IBV_PORT_DOWN) << i;
        }
    }
    EXPECT_EQ(wait_event(node.context), IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(ibv_query_port(node.context, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
}

TEST_F(Faults, datagrams_on_a_down_link_are_dropped) {
    set("SOFTHCA_FAULTS", "post_send@0#1=link_down");
    Node node, other(1);
    std::vector<unsigned char> room(200);
    const ibv_mr *mr = node.reg(data), *to = other.reg(room);
    ibv_qp *here = node.queue_pair({.type = IBV_QPT_UD}), *there = other.queue_pair({.type = IBV_QPT_UD});
    connect(here, {});
    connect(there, {});
    ASSERT_EQ(receive(there, to, 1), 0);
    ibv_ah_attr path{};
    path.dlid = other.lid();
    path.port_num = 1;
    ibv_ah *ah = ibv_create_ah(node.pd, &path);
    Request send(IBV_WR_SEND);
    EXPECT_EQ(status_of(here, send.all(mr).datagram(ah, there->qp_num)), IBV_WC_SUCCESS);
    ibv_wc none{};
    EXPECT_EQ(ibv_poll_cq(other.recv_cq, 1, &none), 0);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Faults, qp_error_at_post_send_moves_to_error) {
    set("SOFTHCA_FAULTS", "post_send#2=qp_error");
    Node node;
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    write.piece(data.data(), 10, mr->lkey).remote(mr, 50);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
    EXPECT_EQ(write.post(pair.here), 0);
    wait(node.send_cq);
    ibv_async_event event{};
    EXPECT_EQ(wait_event(node.context, &event), IBV_EVENT_QP_FATAL);
    EXPECT_EQ(event.element.qp, pair.here);
    EXPECT_EQ(state(pair.here), IBV_QPS_ERR);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Faults, qp_error_at_post_recv_moves_to_error) {
    set("SOFTHCA_FAULTS", "post_recv#1=qp_error");
    Node node;
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    ASSERT_EQ(receive(pair.here, mr, 1), 0);
    EXPECT_EQ(wait(node.recv_cq).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wait_event(node.context), IBV_EVENT_QP_FATAL);
}

TEST_F(Faults, device_fatal_raises_an_event) {
    set("SOFTHCA_FAULTS", "post_send@0=device_fatal");
    Node node;
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(write.post(pair.here), EIO);
    EXPECT_EQ(wait_event(node.context), IBV_EVENT_DEVICE_FATAL);
}

} // namespace
