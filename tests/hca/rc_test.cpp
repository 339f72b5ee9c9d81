// SPDX-License-Identifier: BSD-3-Clause
// Reliable connections within one process: every operation, and every refusal.
#include "hca.h"

#include <thread>

using namespace hca;

namespace {

class ReliableConnection : public HcaTest {
protected:
    Node node, other{1};
    std::vector<unsigned char> source = pattern(100'000, 1), target = std::vector<unsigned char>(100'000);
    ibv_mr *from = node.reg(source), *to = other.reg(target);

    uint64_t target_address(size_t offset = 0) const { return reinterpret_cast<uint64_t>(target.data()) + offset; }
    bool arrived(size_t size, size_t at = 0, size_t start = 0) const {
        return std::memcmp(target.data() + at, source.data() + start, size) == 0;
    }
};

// ---- operations

TEST_F(ReliableConnection, send_fills_the_receive) {
    const Pair pair(node, other);
    ASSERT_EQ(receive(pair.there, to, 7), 0);
    Request send(IBV_WR_SEND, 3);
    ASSERT_EQ(send.piece(source.data(), 5000, from->lkey).post(pair.here), 0);
    const ibv_wc sent = wait(node.send_cq), got = wait(other.recv_cq);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.wr_id, 3u);
    EXPECT_EQ(sent.qp_num, pair.here->qp_num);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    EXPECT_EQ(got.status, IBV_WC_SUCCESS);
    EXPECT_EQ(got.wr_id, 7u);
    EXPECT_EQ(got.opcode, IBV_WC_RECV);
    EXPECT_EQ(got.byte_len, 5000u);
    EXPECT_EQ(got.qp_num, pair.there->qp_num);
    EXPECT_EQ(got.src_qp, pair.here->qp_num);
    EXPECT_TRUE(arrived(5000));
}

TEST_F(ReliableConnection, send_with_immediate_delivers_the_value) {
    const Pair pair(node, other);
    ASSERT_EQ(receive(pair.there, to, 7), 0);
    Request send(IBV_WR_SEND_WITH_IMM);
    ASSERT_EQ(send.piece(source.data(), 10, from->lkey).immediate(0xabcd).post(pair.here), 0);
    const ibv_wc got = wait(other.recv_cq);
    EXPECT_EQ(got.imm_data, 0xabcdu);
    EXPECT_NE(got.wc_flags & IBV_WC_WITH_IMM, 0u);
}

TEST_F(ReliableConnection, scatter_gather_keeps_every_byte) {
    const Pair pair(node, other);
    std::array<ibv_sge, 3> parts = {{{target_address(5000), 100, to->lkey},
                                     {target_address(), 0, to->lkey},
                                     {target_address(1000), 4000, to->lkey}}};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = parts.data();
    wr.num_sge = 3;
    ASSERT_EQ(ibv_post_recv(pair.there, &wr, &bad), 0);
    Request send(IBV_WR_SEND);
    send.piece(source.data() + 10, 150, from->lkey).piece(source.data() + 9000, 850, from->lkey);
    EXPECT_EQ(status_of(pair.here, send), IBV_WC_SUCCESS);
    EXPECT_EQ(wait(other.recv_cq).byte_len, 1000u);
    EXPECT_TRUE(arrived(100, 5000, 10));
    EXPECT_TRUE(arrived(50, 1000, 110));
    EXPECT_TRUE(arrived(850, 1050, 9000));
}

TEST_F(ReliableConnection, inline_data_is_copied_at_post) {
    const Pair pair(node, other);
    std::array<unsigned char, 64> bytes;
    bytes.fill(5);
    Request write(IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    ASSERT_EQ(write.piece(bytes.data(), bytes.size(), 0).remote(to).post(pair.here), 0); // inline data needs no region
    bytes.fill(6);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(target[0], 5);
    EXPECT_EQ(target[63], 5);
    EXPECT_EQ(target[64], 0);
}

TEST_F(ReliableConnection, large_write_and_read_keep_every_byte) {
    const Pair pair(node, other);
    std::vector<unsigned char> big = pattern(40 << 20, 9), copy(big.size()), back(big.size());
    const ibv_mr *a = node.reg(big), *b = other.reg(copy), *c = node.reg(back);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.all(a).remote(b)), IBV_WC_SUCCESS);
    EXPECT_EQ(copy, big);
    Request read(IBV_WR_RDMA_READ);
    ASSERT_EQ(read.all(c).remote(b).post(pair.here), 0);
    const ibv_wc done = wait(node.send_cq);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(done.byte_len, big.size());
    EXPECT_EQ(back, big);
}

TEST_F(ReliableConnection, write_with_immediate_consumes_a_receive) {
    const Pair pair(node, other);
    ASSERT_EQ(receive(pair.there, nullptr, 9), 0);
    Request write(IBV_WR_RDMA_WRITE_WITH_IMM);
    write.piece(source.data(), 333, from->lkey).remote(to, 50).immediate(77);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
    const ibv_wc got = wait(other.recv_cq);
    EXPECT_EQ(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(got.wr_id, 9u);
    EXPECT_EQ(got.byte_len, 333u);
    EXPECT_EQ(got.imm_data, 77u);
    EXPECT_TRUE(arrived(333, 50));
}

TEST_F(ReliableConnection, empty_write_needs_no_key) {
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
}

TEST_F(ReliableConnection, atomics_return_the_old_value) {
    const Pair pair(node, other);
    uint64_t result = 0;
    const ibv_mr *mr = node.reg(&result, sizeof result);
    auto *value = reinterpret_cast<uint64_t *>(target.data() + 64 - target_address() % 8);
    *value = 40;
    const auto where = reinterpret_cast<uint64_t>(value);
    Request add(IBV_WR_ATOMIC_FETCH_AND_ADD);
    EXPECT_EQ(status_of(pair.here, add.all(mr).operands(where, to->rkey, 2)), IBV_WC_SUCCESS);
    EXPECT_EQ(result, 40u);
    EXPECT_EQ(*value, 42u);
    Request swap(IBV_WR_ATOMIC_CMP_AND_SWP);
    EXPECT_EQ(status_of(pair.here, swap.all(mr).operands(where, to->rkey, 42, 7)), IBV_WC_SUCCESS);
    EXPECT_EQ(result, 42u);
    EXPECT_EQ(*value, 7u);
    Request miss(IBV_WR_ATOMIC_CMP_AND_SWP);
    EXPECT_EQ(status_of(pair.here, miss.all(mr).operands(where, to->rkey, 42, 9)), IBV_WC_SUCCESS);
    EXPECT_EQ(result, 7u);
    EXPECT_EQ(*value, 7u);
}

TEST_F(ReliableConnection, concurrent_atomics_lose_no_update) {
    constexpr int kPairs = 4, kTimes = 200;
    std::vector<uint64_t> results(kPairs);
    alignas(8) uint64_t value = 0;
    const ibv_mr *mr = node.reg(results), *counter = other.reg(&value, sizeof value);
    std::vector<Pair> pairs;
    for (int i = 0; i < kPairs; ++i)
        pairs.emplace_back(node, other, Link{}, QpOptions{.send_wr = kTimes});
    std::vector<std::thread> threads;
    for (int i = 0; i < kPairs; ++i)
        threads.emplace_back([&, i] {
            for (int j = 0; j < kTimes; ++j) {
                Request add(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, j + 1 == kTimes ? IBV_SEND_SIGNALED : 0);
                add.piece(&results[static_cast<size_t>(i)], 8, mr->lkey)
                    .operands(reinterpret_cast<uint64_t>(&value), counter->rkey, 1);
                while (add.post(pairs[static_cast<size_t>(i)].here) == ENOMEM)
                    sched_yield();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (int i = 0; i < kPairs; ++i)
        EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(value, static_cast<uint64_t>(kPairs * kTimes));
}

TEST_F(ReliableConnection, only_signalled_requests_complete) {
    const Pair pair(node, other);
    for (uint64_t i = 1; i <= 5; ++i) {
        Request write(IBV_WR_RDMA_WRITE, i, i == 5 ? IBV_SEND_SIGNALED : 0);
        ASSERT_EQ(write.piece(source.data(), 8, from->lkey).remote(to).post(pair.here), 0);
    }
    EXPECT_EQ(wait(node.send_cq).wr_id, 5u);
    ibv_wc none{};
    EXPECT_EQ(ibv_poll_cq(node.send_cq, 1, &none), 0);
}

TEST_F(ReliableConnection, sq_sig_all_completes_every_request) {
    const Pair pair(node, other, {}, {.signal_all = true});
    Request write(IBV_WR_RDMA_WRITE, 4, 0);
    ASSERT_EQ(write.piece(source.data(), 8, from->lkey).remote(to).post(pair.here), 0);
    EXPECT_EQ(wait(node.send_cq).wr_id, 4u);
}

TEST_F(ReliableConnection, requests_complete_in_order) {
    const Pair pair(node, other);
    for (uint64_t i = 0; i < 100; ++i) {
        // Small requests run in this thread, large ones in the engine's: the order must hold across both.
        Request write(IBV_WR_RDMA_WRITE, i);
        ASSERT_EQ(write.piece(source.data(), i % 2 == 0 ? 8 : 60'000, from->lkey).remote(to).post(pair.here), 0);
    }
    for (uint64_t i = 0; i < 100; ++i)
        EXPECT_EQ(wait(node.send_cq).wr_id, i);
}

TEST_F(ReliableConnection, loopback_to_the_same_queue_pair_succeeds) {
    ibv_qp *qp = node.queue_pair();
    connect(qp, {qp->qp_num, node.lid(), 0, 0});
    std::vector<unsigned char> bytes(100);
    const ibv_mr *mr = node.reg(bytes);
    ASSERT_EQ(receive(qp, mr, 1), 0);
    Request send(IBV_WR_SEND);
    EXPECT_EQ(status_of(qp, send.piece(source.data(), 100, from->lkey)), IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(bytes.data(), source.data(), 100), 0);
}

// ---- receivers without a receive

TEST_F(ReliableConnection, send_without_receive_is_retried) {
    const Pair pair(node, other, {.rnr_retry = 7});
    Request send(IBV_WR_SEND);
    ASSERT_EQ(send.piece(source.data(), 100, from->lkey).post(pair.here), 0);
    ASSERT_EQ(receive(pair.there, to, 1), 0);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(arrived(100));
}

TEST_F(ReliableConnection, send_without_receive_fails_after_rnr_retries) {
    const Pair pair(node, other, {.rnr_retry = 3});
    Request send(IBV_WR_SEND);
    EXPECT_EQ(status_of(pair.here, send.piece(source.data(), 100, from->lkey)), IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(state(pair.here), IBV_QPS_ERR);
}

TEST_F(ReliableConnection, write_with_immediate_waits_for_a_receive_before_writing) {
    const Pair pair(node, other, {.rnr_retry = 0});
    Request write(IBV_WR_RDMA_WRITE_WITH_IMM);
    write.piece(source.data(), 100, from->lkey).remote(to);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(target[0], 0);
}

TEST_F(ReliableConnection, unconnected_peer_exceeds_the_retries) {
    ibv_qp *here = node.queue_pair(), *there = other.queue_pair();
    EXPECT_EQ(to_init(there), 0);
    connect(here, {there->qp_num, other.lid(), 0, 0}, {.retry_count = 2, .timeout = 1});
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(here, write.all(from).remote(to)), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(ReliableConnection, peer_ready_within_the_retries_answers) {
    ibv_qp *here = node.queue_pair(), *there = other.queue_pair();
    EXPECT_EQ(to_init(there), 0);
    connect(here, {there->qp_num, other.lid(), 0, 0}, {.timeout = 0}); // retries for ever
    Request write(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(write.all(from).remote(to).post(here), 0);
    EXPECT_EQ(to_rtr(there, {here->qp_num, node.lid(), 0, 0}), 0);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
}

TEST_F(ReliableConnection, destroyed_peer_exceeds_the_retries) {
    const Pair pair(node, other);
    other.destroy(pair.there);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.all(from).remote(to)), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(ReliableConnection, wrong_lid_exceeds_the_retries) {
    ibv_qp *here = node.queue_pair(), *there = other.queue_pair();
    connect(there, {here->qp_num, node.lid(), 0, 0});
    connect(here, {there->qp_num, 0x77, 0, 0}, {.retry_count = 1, .timeout = 1});
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(here, write.all(from).remote(to)), IBV_WC_RETRY_EXC_ERR);
}

// ---- errors of the responder

class RemoteError : public ReliableConnection {
protected:
    /// The request fails with `status`, and both queue pairs move to the error state.
    void refused(const Pair &pair, Request &request, ibv_wc_status status,
                 ibv_event_type event = IBV_EVENT_QP_ACCESS_ERR) {
        EXPECT_EQ(status_of(pair.here, request), status);
        EXPECT_EQ(state(pair.here), IBV_QPS_ERR);
        ibv_async_event what{};
        EXPECT_EQ(wait_event(other.context, &what), event);
        EXPECT_EQ(what.element.qp, pair.there);
        EXPECT_EQ(state(pair.there), IBV_QPS_ERR);
    }
};

TEST_F(RemoteError, unknown_rkey_is_remote_access_error) {
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.all(from).remote(target_address(), to->rkey + 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, deregistered_rkey_is_remote_access_error) {
    const Pair pair(node, other);
    const uint32_t rkey = to->rkey;
    other.dereg(to);
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.all(from).remote(target_address(), rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, byte_past_the_end_is_remote_access_error) {
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.all(from).remote(to, 1), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(target[1], 0);
}

TEST_F(RemoteError, byte_before_the_start_is_remote_access_error) {
    const Pair pair(node, other);
    Request read(IBV_WR_RDMA_READ);
    refused(pair, read.piece(source.data(), 10, from->lkey).remote(target_address() - 1, to->rkey),
            IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, wrapping_address_is_remote_access_error) {
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.piece(source.data(), 100, from->lkey).remote(UINT64_MAX - 10, to->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, region_without_remote_write_is_remote_access_error) {
    const Pair pair(node, other);
    const ibv_mr *mr = other.reg(target, IBV_ACCESS_REMOTE_READ);
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.all(from).remote(mr), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, region_without_remote_read_is_remote_access_error) {
    const Pair pair(node, other);
    const ibv_mr *mr = other.reg(target, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    Request read(IBV_WR_RDMA_READ);
    refused(pair, read.all(from).remote(mr), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, region_without_remote_atomic_is_remote_access_error) {
    const Pair pair(node, other);
    const ibv_mr *mr = other.reg(target, kAll & ~IBV_ACCESS_REMOTE_ATOMIC);
    Request add(IBV_WR_ATOMIC_FETCH_AND_ADD);
    add.piece(source.data(), 8, from->lkey).operands((target_address() + 7) / 8 * 8, mr->rkey, 1);
    refused(pair, add, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, queue_pair_without_the_right_is_remote_access_error) {
    const Pair pair(node, other, {.access = IBV_ACCESS_REMOTE_READ});
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.all(from).remote(to), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(RemoteError, region_of_another_domain_is_remote_access_error) {
    const Pair pair(node, other);
    ibv_pd *pd = ibv_alloc_pd(other.context);
    ibv_mr *mr = ibv_reg_mr(pd, target.data(), target.size(), kAll);
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.all(from).remote(mr), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(RemoteError, read_without_responder_resources_is_invalid_request) {
    const Pair pair(node, other, {.rd_atomic = 0});
    Request read(IBV_WR_RDMA_READ);
    refused(pair, read.all(from).remote(to), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RemoteError, unaligned_atomic_is_invalid_request) {
    const Pair pair(node, other);
    Request add(IBV_WR_ATOMIC_FETCH_AND_ADD);
    add.piece(source.data(), 8, from->lkey).operands(target_address() / 8 * 8 + 12, to->rkey, 1);
    refused(pair, add, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RemoteError, short_receive_is_length_error) {
    const Pair pair(node, other);
    ASSERT_EQ(receive(pair.there, to, 5, 99), 0);
    Request send(IBV_WR_SEND);
    refused(pair, send.piece(source.data(), 100, from->lkey), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_FATAL);
    EXPECT_EQ(wait(other.recv_cq).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(target[0], 0);
}

TEST_F(RemoteError, receive_with_unknown_lkey_is_protection_error) {
    const Pair pair(node, other);
    ibv_mr wrong = *to;
    wrong.lkey += 1;
    ASSERT_EQ(receive(pair.there, &wrong, 5), 0);
    Request send(IBV_WR_SEND);
    refused(pair, send.piece(source.data(), 100, from->lkey), IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
    EXPECT_EQ(wait(other.recv_cq).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(RemoteError, receive_without_local_write_is_protection_error) {
    const Pair pair(node, other);
    ASSERT_EQ(receive(pair.there, other.reg(target, IBV_ACCESS_REMOTE_READ), 5), 0);
    Request send(IBV_WR_SEND);
    refused(pair, send.piece(source.data(), 100, from->lkey), IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
    EXPECT_EQ(wait(other.recv_cq).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(RemoteError, unmapped_responder_memory_is_remote_operation_error) {
    const Pair pair(node, other);
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const ibv_mr *mr = other.reg(page, 4096);
    munmap(page, 4096);
    Request write(IBV_WR_RDMA_WRITE);
    refused(pair, write.piece(source.data(), 4096, from->lkey).remote(mr), IBV_WC_REM_OP_ERR);
}

// ---- errors of the initiator

class LocalError : public ReliableConnection {
protected:
    /// The request fails here, and the peer is not affected.
    void local(const Pair &pair, Request &request, ibv_wc_status status) {
        EXPECT_EQ(status_of(pair.here, request), status);
        EXPECT_EQ(state(pair.here), IBV_QPS_ERR);
        EXPECT_EQ(state(pair.there), IBV_QPS_RTS);
        EXPECT_TRUE(no_event(other.context));
    }
};

TEST_F(LocalError, unknown_lkey_is_protection_error) {
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    local(pair, write.piece(source.data(), 10, from->lkey + 1).remote(to), IBV_WC_LOC_PROT_ERR);
}

TEST_F(LocalError, local_range_past_the_region_is_protection_error) {
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    local(pair, write.piece(source.data() + 1, source.size(), from->lkey).remote(to), IBV_WC_LOC_PROT_ERR);
}

TEST_F(LocalError, read_without_local_write_is_protection_error) {
    const Pair pair(node, other);
    const ibv_mr *mr = node.reg(source, IBV_ACCESS_REMOTE_READ);
    Request read(IBV_WR_RDMA_READ);
    local(pair, read.all(mr).remote(to), IBV_WC_LOC_PROT_ERR);
}

TEST_F(LocalError, lkey_of_another_device_is_protection_error) {
    const Pair pair(node, other);
    Request write(IBV_WR_RDMA_WRITE);
    local(pair, write.all(to).remote(to), IBV_WC_LOC_PROT_ERR);
}

TEST_F(LocalError, unmapped_initiator_memory_is_protection_error) {
    const Pair pair(node, other);
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const ibv_mr *mr = node.reg(page, 4096);
    munmap(page, 4096);
    Request write(IBV_WR_RDMA_WRITE);
    local(pair, write.all(mr).remote(to), IBV_WC_LOC_PROT_ERR);
}

TEST_F(LocalError, atomic_of_wrong_size_is_length_error) {
    const Pair pair(node, other);
    Request add(IBV_WR_ATOMIC_FETCH_AND_ADD);
    add.piece(source.data(), 4, from->lkey).operands(target_address() / 8 * 8 + 8, to->rkey, 1);
    local(pair, add, IBV_WC_LOC_LEN_ERR);
}

TEST_F(LocalError, message_beyond_the_limit_is_length_error) {
    const Pair pair(node, other);
    void *huge = mmap(nullptr, 2ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ibv_mr *mr = node.reg(huge, 2ul << 30);
    Request write(IBV_WR_RDMA_WRITE);
    local(pair, write.piece(huge, (1u << 30) + 1, mr->lkey).remote(to), IBV_WC_LOC_LEN_ERR);
    node.dereg(mr);
    munmap(huge, 2ul << 30);
}

TEST_F(LocalError, unsupported_post_is_refused) {
    const Pair pair(node, other, {}, {.send_wr = 4, .sge = 2, .inline_data = 16});
    Request many(IBV_WR_RDMA_WRITE);
    for (int i = 0; i < 3; ++i)
        many.piece(source.data(), 1, from->lkey);
    EXPECT_EQ(many.remote(to).post(pair.here), EINVAL);
    Request inlined(IBV_WR_RDMA_WRITE, 1, IBV_SEND_INLINE);
    EXPECT_EQ(inlined.piece(source.data(), 17, 0).remote(to).post(pair.here), EINVAL);
    Request read(IBV_WR_RDMA_READ, 1, IBV_SEND_INLINE);
    EXPECT_EQ(read.piece(source.data(), 1, 0).remote(to).post(pair.here), EINVAL);
    Request bind(IBV_WR_BIND_MW);
    EXPECT_EQ(bind.post(pair.here), EINVAL);
}

TEST_F(LocalError, post_to_full_send_queue_is_refused) {
    const Pair pair(node, other, {}, {.send_wr = 4});
    for (int i = 0; i < 4; ++i) {
        Request send(IBV_WR_SEND); // no receive is posted: the requests stay
        ASSERT_EQ(send.piece(source.data(), 1, from->lkey).post(pair.here), 0);
    }
    Request send(IBV_WR_SEND);
    EXPECT_EQ(send.piece(source.data(), 1, from->lkey).post(pair.here), ENOMEM);
}

TEST_F(LocalError, post_to_full_receive_queue_is_refused) {
    const Pair pair(node, other, {}, {}, {.recv_wr = 4, .sge = 1});
    for (int i = 0; i < 4; ++i)
        ASSERT_EQ(receive(pair.there, to, 1), 0);
    EXPECT_EQ(receive(pair.there, to, 1), ENOMEM);
    std::array<ibv_sge, 2> two{};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = two.data();
    wr.num_sge = 2;
    EXPECT_EQ(ibv_post_recv(pair.there, &wr, &bad), EINVAL);
    EXPECT_EQ(bad, &wr);
}

} // namespace
