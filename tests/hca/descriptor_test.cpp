// SPDX-License-Identifier: BSD-3-Clause
// The descriptors of dma-bufs: a program gets all of them back.
#include "hca.h"

#include <algorithm>
#include <csignal>
#include <filesystem>

using namespace hca;
using soft::Card;
using soft::kPage;

namespace {

constexpr size_t kSize = 4096;

size_t open_descriptors() {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(entries), end(entries))) - 1; // without the one that looks
}

/// Waits until the engine's thread has closed what it should; an error of the test when it does not.
void expect_descriptors(size_t count) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (open_descriptors() != count && std::chrono::steady_clock::now() < until)
        sched_yield();
    EXPECT_EQ(open_descriptors(), count);
}

/// A card's block that is registered with an HCA.
struct Block {
    explicit Block(Node &node) : address(card.memory()), m_node(node) {
        const int fd = hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, address, kPage, 0, O_RDWR | O_CLOEXEC);
        mr = ibv_reg_dmabuf_mr(node.pd, 0, kPage, address, fd, kAll);
        EXPECT_NE(mr, nullptr) << strerror(errno);
        m_node.adopt(mr);
        close(fd);
    }
    void deregister() { m_node.dereg(mr); }

    Card card;
    uint64_t address;
    ibv_mr *mr;

private:
    Node &m_node;
};

/// Another process with a card's block that this one reads. It deregisters the block and ends when it is told to.
class Owner {
public:
    Owner()
        : m_child([](int socket) {
              Node node(1);
              Block block(node);
              ibv_qp *qp = node.queue_pair();
              give(socket, {qp->qp_num, node.lid(), block.address, block.mr->rkey});
              connect(qp, take(socket));
              tell(socket);
              hear(socket);
              block.deregister();
              tell(socket);
              hear(socket);
              return ::testing::Test::HasFailure() ? 1 : 0;
          }) {}

    void meet(ibv_qp *qp, uint16_t lid) {
        m_peer = take(m_child.socket());
        give(m_child.socket(), {qp->qp_num, lid, 0, 0});
        connect(qp, m_peer, {.retry_count = 1});
        EXPECT_NE(hear(m_child.socket()), 0);
    }
    ibv_wc_status read(ibv_qp *qp, const ibv_mr *into) const {
        Request request(IBV_WR_RDMA_READ);
        return status_of(qp, request.all(into).remote(m_peer.address, m_peer.rkey));
    }
    void deregister() {
        tell(m_child.socket());
        EXPECT_NE(hear(m_child.socket()), 0);
    }
    void end() {
        tell(m_child.socket());
        EXPECT_EQ(m_child.join(), 0);
    }
    void kill() {
        ASSERT_EQ(::kill(m_child.pid(), SIGKILL), 0);
        EXPECT_EQ(m_child.join(), 128 + SIGKILL);
    }

private:
    Child m_child;
    Peer m_peer;
};

class Descriptors : public HcaTest {};

// ---- given back

TEST_F(Descriptors, of_own_dmabuf_closed_at_deregistration) {
    Node node;
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    Card card;
    const uint64_t address = card.memory();
    const size_t before = open_descriptors();
    const int fd = hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, address, kPage, 0, O_RDWR | O_CLOEXEC);
    ibv_mr *block = ibv_reg_dmabuf_mr(node.pd, 0, kPage, address, fd, kAll);
    close(fd);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.all(mr).remote(block)), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(block), 0);
    EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Descriptors, of_peers_dmabuf_closed_when_peer_deregisters) {
    Owner owner;
    Node node;
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    ibv_qp *qp = node.queue_pair();
    owner.meet(qp, node.lid());
    const size_t before = open_descriptors();
    EXPECT_EQ(owner.read(qp, mr), IBV_WC_SUCCESS);
    EXPECT_EQ(open_descriptors(), before + 1);
    owner.deregister();
    expect_descriptors(before);
    owner.end();
}

TEST_F(Descriptors, of_peers_dmabuf_closed_when_a_request_finds_the_peer_dead) {
    Owner owner;
    Node node;
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    ibv_qp *qp = node.queue_pair();
    owner.meet(qp, node.lid());
    const size_t before = open_descriptors();
    EXPECT_EQ(owner.read(qp, mr), IBV_WC_SUCCESS);
    owner.kill();
    EXPECT_EQ(owner.read(qp, mr), IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Descriptors, of_peers_dmabuf_closed_when_the_queue_pair_to_a_dead_peer_is_destroyed) {
    Owner owner;
    Node node;
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    ibv_qp *qp = node.queue_pair();
    owner.meet(qp, node.lid());
    const size_t before = open_descriptors();
    EXPECT_EQ(owner.read(qp, mr), IBV_WC_SUCCESS);
    owner.kill();
    node.destroy(qp);
    EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Descriptors, of_dead_peers_dmabuf_closed_when_its_entries_are_reclaimed) {
    Owner owner;
    Child newcomer([](int socket) {
        hear(socket);
        const Node entered; // a process that enters the fabric removes what the dead left
        return 0;
    });
    Node node;
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    ibv_qp *qp = node.queue_pair();
    owner.meet(qp, node.lid());
    const size_t before = open_descriptors();
    EXPECT_EQ(owner.read(qp, mr), IBV_WC_SUCCESS);
    owner.kill();
    tell(newcomer.socket());
    EXPECT_EQ(newcomer.join(), 0);
    expect_descriptors(before);
}

} // namespace
