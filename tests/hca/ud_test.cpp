// SPDX-License-Identifier: BSD-3-Clause
// Datagrams: delivered behind 40 bytes for a header, or dropped silently.
#include "hca.h"

using namespace hca;

namespace {

class Datagram : public HcaTest {
protected:
    static constexpr size_t kHeader = 40;

    Node node, other{1};
    std::vector<unsigned char> source = pattern(8192, 1), target = std::vector<unsigned char>(8192);
    ibv_mr *from = node.reg(source), *to = other.reg(target);
    ibv_qp *here = node.queue_pair({.type = IBV_QPT_UD}), *there = other.queue_pair({.type = IBV_QPT_UD});
    ibv_ah *ah = nullptr;

    Datagram() {
        connect(here, {});
        connect(there, {});
        ah = path(other.lid());
    }
    ~Datagram() override { EXPECT_EQ(ibv_destroy_ah(ah), 0); }

    ibv_ah *path(uint16_t lid, bool global = false) {
        ibv_ah_attr attr{};
        attr.dlid = lid;
        attr.port_num = 1;
        attr.is_global = global;
        ibv_ah *made = ibv_create_ah(node.pd, &attr);
        EXPECT_NE(made, nullptr);
        return made;
    }
    /// The send succeeds and nothing is received.
    void lost(Request &request) {
        EXPECT_EQ(status_of(here, request), IBV_WC_SUCCESS);
        ibv_wc none{};
        EXPECT_EQ(ibv_poll_cq(other.recv_cq, 1, &none), 0);
    }
    Request message(size_t size = 100) {
        Request send(IBV_WR_SEND);
        send.piece(source.data(), size, from->lkey).datagram(ah, there->qp_num);
        return send;
    }
};

TEST_F(Datagram, payload_follows_the_header) {
    ASSERT_EQ(receive(there, to, 8), 0);
    Request send = message();
    EXPECT_EQ(status_of(here, send), IBV_WC_SUCCESS);
    const ibv_wc got = wait(other.recv_cq);
    EXPECT_EQ(got.status, IBV_WC_SUCCESS);
    EXPECT_EQ(got.wr_id, 8u);
    EXPECT_EQ(got.byte_len, 100 + kHeader);
    EXPECT_EQ(got.src_qp, here->qp_num);
    EXPECT_EQ(got.slid, node.lid());
    EXPECT_EQ(got.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(std::memcmp(target.data() + kHeader, source.data(), 100), 0);
}

TEST_F(Datagram, global_address_delivers_a_usable_header) {
    ASSERT_EQ(receive(there, to, 8), 0);
    ibv_ah *global = path(other.lid(), true);
    Request send(IBV_WR_SEND_WITH_IMM);
    send.piece(source.data(), 100, from->lkey).datagram(global, there->qp_num).immediate(5);
    EXPECT_EQ(status_of(here, send), IBV_WC_SUCCESS);
    ibv_wc got = wait(other.recv_cq);
    EXPECT_NE(got.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(got.imm_data, 5u);
    auto *header = reinterpret_cast<ibv_grh *>(target.data());
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(node.context, 1, 0, &gid), 0);
    EXPECT_EQ(std::memcmp(&header->sgid, &gid, sizeof gid), 0);

    ibv_ah *back = ibv_create_ah_from_wc(other.pd, &got, header, 1);
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(receive(here, from, 9), 0);
    Request answer(IBV_WR_SEND);
    answer.piece(target.data(), 10, to->lkey).datagram(back, got.src_qp);
    EXPECT_EQ(status_of(there, answer), IBV_WC_SUCCESS);
    EXPECT_EQ(wait(node.recv_cq).wr_id, 9u);
    EXPECT_EQ(ibv_destroy_ah(back), 0);
    EXPECT_EQ(ibv_destroy_ah(global), 0);
}

TEST_F(Datagram, missing_receive_drops_it) {
    Request send = message();
    lost(send);
}

TEST_F(Datagram, wrong_qkey_drops_it) {
    ASSERT_EQ(receive(there, to, 8), 0);
    Request send = message();
    lost(send.datagram(ah, there->qp_num, 0x222));
}

TEST_F(Datagram, wrong_address_drops_it) {
    ASSERT_EQ(receive(there, to, 8), 0);
    ibv_ah *wrong = path(0x99);
    Request send = message();
    lost(send.datagram(wrong, there->qp_num));
    lost(send.datagram(ah, there->qp_num + 1));
    EXPECT_EQ(ibv_destroy_ah(wrong), 0);
}

TEST_F(Datagram, high_bit_of_qkey_selects_the_own_one) {
    ASSERT_EQ(receive(there, to, 8), 0);
    Request send = message();
    EXPECT_EQ(status_of(here, send.datagram(ah, there->qp_num, 0x80000000u)), IBV_WC_SUCCESS);
    EXPECT_EQ(wait(other.recv_cq).status, IBV_WC_SUCCESS);
}

TEST_F(Datagram, payload_beyond_the_mtu_is_length_error) {
    Request send = message(4097);
    EXPECT_EQ(status_of(here, send), IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(state(here), IBV_QPS_SQE);
    Request next = message();
    EXPECT_EQ(status_of(here, next), IBV_WC_WR_FLUSH_ERR);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(here, &attr, IBV_QP_STATE), 0);
    ASSERT_EQ(receive(there, to, 8), 0);
    Request again = message();
    EXPECT_EQ(status_of(here, again), IBV_WC_SUCCESS);
}

TEST_F(Datagram, unknown_lkey_is_protection_error) {
    Request send(IBV_WR_SEND);
    send.piece(source.data(), 10, from->lkey + 1).datagram(ah, there->qp_num);
    EXPECT_EQ(status_of(here, send), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Datagram, short_receive_moves_the_receiver_to_error) {
    ASSERT_EQ(receive(there, to, 8, 100 + kHeader - 1), 0);
    Request send = message();
    EXPECT_EQ(status_of(here, send), IBV_WC_SUCCESS);
    EXPECT_EQ(wait(other.recv_cq).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(state(there), IBV_QPS_ERR);
}

TEST_F(Datagram, receive_with_unknown_lkey_moves_the_receiver_to_error) {
    ibv_mr wrong = *to;
    wrong.lkey += 1;
    ASSERT_EQ(receive(there, &wrong, 8), 0);
    Request send = message();
    EXPECT_EQ(status_of(here, send), IBV_WC_SUCCESS);
    EXPECT_EQ(wait(other.recv_cq).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(Datagram, rdma_on_ud_is_refused) {
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(write.piece(source.data(), 10, from->lkey).remote(to).post(here), EINVAL);
}

TEST_F(Datagram, address_handle_of_other_port_is_refused) {
    ibv_ah_attr attr{};
    attr.dlid = other.lid();
    attr.port_num = 2;
    EXPECT_EQ(ibv_create_ah(node.pd, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

} // namespace
