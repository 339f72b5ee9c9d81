// SPDX-License-Identifier: BSD-3-Clause
// Time: on the virtual clock a transfer takes exactly the time of its link.
#include "hca.h"

using namespace hca;

namespace {

constexpr uint64_t kUs = 1000; // nanoseconds

class VirtualPace : public HcaTest {
protected:
    static constexpr size_t kSize = 1 << 20; // 1 MiB at 1 GB/s takes 1048576 ns
    static constexpr uint64_t kTime = kSize;

    std::vector<unsigned char> data = pattern(4 * kSize);

    VirtualPace() {
        set("SOFTHCA_PACE", "virtual:link:1,latency:3");
        set("SOFTGAUDI_PACE", "virtual:down:1,up:1");
    }
    /// The time on the software Gaudi's clock.
    static uint64_t now() {
        static const int control = hlthunk_open_control(0, nullptr);
        hlthunk_time_sync_info info{};
        EXPECT_EQ(hlthunk_get_time_sync_info(control, &info), 0);
        return info.device_time;
    }
    Request write(const ibv_mr *from, const ibv_mr *to, size_t size = kSize) {
        Request request(IBV_WR_RDMA_WRITE);
        request.piece(data.data(), size, from->lkey).remote(to, 2 * kSize);
        return request;
    }
};

TEST_F(VirtualPace, transfer_takes_link_time_plus_latency) {
    Node node;
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    const uint64_t begin = now();
    Request request = write(mr, mr);
    EXPECT_EQ(status_of(pair.here, request), IBV_WC_SUCCESS);
    EXPECT_EQ(now() - begin, kTime + 3 * kUs);
}

TEST_F(VirtualPace, transfers_on_one_link_add_up) {
    Node node;
    const ibv_mr *mr = node.reg(data);
    const Pair one(node, node), two(node, node);
    const uint64_t begin = now();
    Request first = write(mr, mr), second = write(mr, mr);
    ASSERT_EQ(first.post(one.here), 0);
    ASSERT_EQ(second.post(two.here), 0);
    wait(node.send_cq);
    EXPECT_EQ(now() - begin, kTime + 3 * kUs);
    wait(node.send_cq);
    EXPECT_EQ(now() - begin, 2 * kTime + 3 * kUs);
}

TEST_F(VirtualPace, transfers_on_two_links_overlap) {
    Node node, other(1);
    const ibv_mr *mr = node.reg(data), *peer_mr = other.reg(data);
    const Pair one(node, node), two(other, other);
    const uint64_t begin = now();
    Request first = write(mr, mr), second = write(peer_mr, peer_mr);
    ASSERT_EQ(first.post(one.here), 0);
    ASSERT_EQ(second.post(two.here), 0);
    wait(node.send_cq);
    wait(other.send_cq);
    EXPECT_EQ(now() - begin, kTime + 3 * kUs);
}

TEST_F(VirtualPace, read_occupies_the_link_of_the_responder) {
    Node node, other(1);
    const ibv_mr *mr = node.reg(data), *peer_mr = other.reg(data);
    const Pair pair(node, other), loop(node, node);
    const uint64_t begin = now();
    Request read(IBV_WR_RDMA_READ);
    read.piece(data.data(), kSize, mr->lkey).remote(peer_mr, 2 * kSize);
    Request beside = write(mr, mr);
    ASSERT_EQ(read.post(pair.here), 0);
    ASSERT_EQ(beside.post(loop.here), 0);
    wait(node.send_cq);
    wait(node.send_cq);
    EXPECT_EQ(now() - begin, kTime + 3 * kUs);
}

TEST_F(VirtualPace, receive_completes_when_the_bytes_have_arrived) {
    Node node, other(1);
    const ibv_mr *mr = node.reg(data), *peer_mr = other.reg(data);
    const Pair pair(node, other);
    ASSERT_EQ(receive(pair.there, peer_mr, 1), 0);
    const uint64_t begin = now();
    Request send(IBV_WR_SEND, 1, 0);
    ASSERT_EQ(send.piece(data.data(), kSize, mr->lkey).post(pair.here), 0);
    ibv_wc none{};
    EXPECT_EQ(ibv_poll_cq(other.recv_cq, 1, &none), 0);
    wait(other.recv_cq);
    EXPECT_EQ(now() - begin, kTime + 3 * kUs);
}

TEST_F(VirtualPace, card_copies_overlap_with_transfers) {
    soft::Card card;
    const uint64_t block = card.memory();
    std::vector<unsigned char> host(kSize);
    const uint64_t mapped = card.map(host);
    const uint64_t commands = card.place(soft::Packets().copy(mapped, block, kSize));
    Node node;
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    const uint64_t begin = now();
    Request request = write(mr, mr);
    ASSERT_EQ(request.post(pair.here), 0);
    std::array chunks = {soft::Card::chunk(soft::kDown, commands, soft::Packets().copy(mapped, block, kSize).size())};
    uint64_t seq = 0;
    ASSERT_EQ(card.try_submit(chunks, seq), 0);
    ASSERT_EQ(card.wait(seq), 0);
    wait(node.send_cq);
    EXPECT_EQ(now() - begin, kTime + 3 * kUs);
}

TEST_F(VirtualPace, failed_request_completes_after_earlier_ones) {
    Node node;
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    Request good = write(mr, mr), bad = write(mr, mr), last = write(mr, mr);
    bad.remote(uint64_t{0}, 0);
    ASSERT_EQ(good.post(pair.here), 0);
    ASSERT_EQ(bad.post(pair.here), 0);
    ASSERT_EQ(last.post(pair.here), 0);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_WR_FLUSH_ERR);
}

class RealPace : public HcaTest {};

TEST_F(RealPace, completion_is_not_before_the_link_time) {
    set("SOFTHCA_PACE", "link:0.1,latency:100");
    Node node;
    std::vector<unsigned char> data = pattern(2 << 20);
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    const auto begin = std::chrono::steady_clock::now();
    Request request(IBV_WR_RDMA_WRITE);
    request.piece(data.data(), 1 << 20, mr->lkey).remote(mr, 1 << 20);
    EXPECT_EQ(status_of(pair.here, request), IBV_WC_SUCCESS);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::nanoseconds(10 * (1 << 20)));
    EXPECT_TRUE(std::equal(data.begin(), data.begin() + (1 << 20), data.begin() + (1 << 20)));
}

} // namespace
