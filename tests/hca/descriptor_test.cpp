// SPDX-License-Identifier: BSD-3-Clause
// Descriptors: each is closed in time, and requests that fail for lack of descriptors report the reason.
#include "hca.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

using namespace hca;
using soft::Card;
using soft::kPage;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr size_t kSize = 4096;

size_t open_descriptors() {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(entries), end(entries))) - 1; // without that of the iterator
}

/// Waits until the engine's thread has closed its descriptors; fails the test otherwise.
void expect_descriptors(size_t count) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (open_descriptors() != count && std::chrono::steady_clock::now() < until)
        sched_yield();
    EXPECT_EQ(open_descriptors(), count);
}

/// A block of a card, registered with an HCA.
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

/// Another process, whose registered block this one reads. It deregisters the block and exits on request.
class Owner {
public:
    Owner()
        : m_child([](int socket) {
              Node node(1);
              Block block(node);
              ibv_qp *qp = node.queue_pair();
              give(socket, {qp->qp_num, node.lid(), block.address, block.mr->rkey});
              connect(qp, take(socket));
              send_byte(socket);
              receive_byte(socket);
              block.deregister();
              send_byte(socket);
              receive_byte(socket);
              return ::testing::Test::HasFailure() ? 1 : 0;
          }) {}

    void meet(ibv_qp *qp, uint16_t lid) {
        m_peer = take(m_child.socket());
        give(m_child.socket(), {qp->qp_num, lid, 0, 0});
        connect(qp, m_peer, {.retry_count = 1});
        EXPECT_NE(receive_byte(m_child.socket()), 0);
    }
    ibv_wc_status read(ibv_qp *qp, const ibv_mr *into) const {
        Request request(IBV_WR_RDMA_READ);
        return status_of(qp, request.all(into).remote(m_peer.address, m_peer.rkey));
    }
    pid_t pid() const { return m_child.pid(); }
    void deregister() {
        send_byte(m_child.socket());
        EXPECT_NE(receive_byte(m_child.socket()), 0);
    }
    void end() {
        send_byte(m_child.socket());
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
class DescriptorShortage : public HcaTest {};

// ---- descriptors that are closed

TEST_F(Descriptors, own_dmabuf_is_closed_at_deregistration) {
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

TEST_F(Descriptors, peers_dmabuf_is_closed_when_the_peer_deregisters) {
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

TEST_F(Descriptors, peers_dmabuf_is_closed_when_a_request_finds_the_peer_dead) {
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

TEST_F(Descriptors, peers_dmabuf_is_closed_with_the_queue_pair_to_a_dead_peer) {
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

TEST_F(Descriptors, dead_peers_dmabuf_is_closed_when_its_entries_are_reclaimed) {
    Owner owner;
    Child newcomer([](int socket) {
        receive_byte(socket);
        const Node entered; // a process that joins reclaims the entries of dead ones
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
    send_byte(newcomer.socket());
    EXPECT_EQ(newcomer.join(), 0);
    expect_descriptors(before);
}

// ---- shortage

/// Limits this process to 0 or 1 more descriptors during its lifetime.
class FewDescriptors {
public:
    explicit FewDescriptors(rlim_t more) {
        const int next = dup(STDERR_FILENO);
        close(next);
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &m_before), 0);
        const rlimit few{static_cast<rlim_t>(next) + more, m_before.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    }
    ~FewDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &m_before), 0); }
    FewDescriptors(const FewDescriptors &) = delete;
    FewDescriptors &operator=(const FewDescriptors &) = delete;

private:
    rlimit m_before{};
};

/// What this process prints during `action` with no descriptor left, or one.
template <class Action>
std::string printed_without_descriptors(Action action, rlim_t left = 0) {
    ::testing::internal::CaptureStderr();
    {
        const FewDescriptors few(left);
        action();
    }
    return ::testing::internal::GetCapturedStderr();
}

size_t lines(const std::string &text) { return static_cast<size_t>(std::ranges::count(text, '\n')); }

TEST_F(DescriptorShortage, request_that_needs_an_import_fails_with_a_reason) {
    Node node;
    Block block(node);
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    const std::string printed = printed_without_descriptors([&] {
        Request write(IBV_WR_RDMA_WRITE);
        EXPECT_EQ(status_of(pair.here, write.all(mr).remote(block.mr)), IBV_WC_REM_OP_ERR);
    });
    EXPECT_THAT(printed, AllOf(HasSubstr("softhca: cannot open the dma-buf of a memory region"),
                               HasSubstr("Too many open files"), HasSubstr("ulimit -n")));
}

TEST_F(DescriptorShortage, refused_import_names_the_peer_process) {
    Owner owner;
    Node node;
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    ibv_qp *qp = node.queue_pair();
    owner.meet(qp, node.lid());
    const std::string printed = printed_without_descriptors([&] { EXPECT_EQ(owner.read(qp, mr), IBV_WC_REM_OP_ERR); });
    EXPECT_THAT(printed,
                AllOf(HasSubstr("of process " + std::to_string(owner.pid())), HasSubstr("Too many open files")));
    owner.deregister();
    owner.end();
}

TEST_F(DescriptorShortage, many_refused_requests_print_one_line) {
    Node node;
    Block block(node);
    std::vector<unsigned char> data(kSize);
    const ibv_mr *mr = node.reg(data);
    const Pair first(node, node), second(node, node), third(node, node);
    const std::string printed = printed_without_descriptors([&] {
        for (ibv_qp *qp : {first.here, second.here, third.here}) {
            Request write(IBV_WR_RDMA_WRITE);
            EXPECT_EQ(status_of(qp, write.all(mr).remote(block.mr)), IBV_WC_REM_OP_ERR);
        }
    });
    // The failing queue pairs also raise events that cannot be delivered: a second cause.
    EXPECT_EQ(lines(printed), 2u) << printed;
}

TEST_F(DescriptorShortage, lost_completion_event_is_reported) {
    Node first;
    ibv_comp_channel *channel = ibv_create_comp_channel(first.context);
    {
        Node node(0, 64, channel);
        std::vector<unsigned char> data(kSize);
        const ibv_mr *mr = node.reg(data);
        const Pair pair(node, node);
        EXPECT_EQ(ibv_req_notify_cq(node.send_cq, 0), 0);
        const std::string printed = printed_without_descriptors([&] {
            Request write(IBV_WR_RDMA_WRITE);
            EXPECT_EQ(status_of(pair.here, write.piece(data.data(), 8, mr->lkey).remote(mr, 64)), IBV_WC_SUCCESS);
        });
        EXPECT_THAT(printed, AllOf(HasSubstr("softhca: lost an event"), HasSubstr("Too many open files")));
    }
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(DescriptorShortage, failure_to_join_the_fabric_is_reported) {
    const auto count_devices = [] {
        int count = 0;
        ibv_free_device_list(ibv_get_device_list(&count));
        return count;
    };
    EXPECT_EQ(count_devices(), 2); // UBSan needs descriptors when it meets a new type
    Child child([&](int) {         // must join the fabric itself
        const std::string printed =
            printed_without_descriptors([&] { EXPECT_EQ(count_devices(), 0); }, 1); // joining needs two
        EXPECT_THAT(printed,
                    AllOf(HasSubstr("cannot join the fabric in " + fabric()), HasSubstr("Too many open files")));
        return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.join(), 0);
}

TEST_F(DescriptorShortage, requests_without_shortage_print_nothing) {
    ::testing::internal::CaptureStderr();
    {
        Node node;
        Block block(node);
        std::vector<unsigned char> data(kSize);
        const ibv_mr *mr = node.reg(data);
        const Pair pair(node, node);
        Request write(IBV_WR_RDMA_WRITE);
        EXPECT_EQ(status_of(pair.here, write.all(mr).remote(block.mr)), IBV_WC_SUCCESS);
        Request wrong(IBV_WR_RDMA_WRITE);
        EXPECT_EQ(status_of(pair.here, wrong.all(mr).remote(block.mr, kPage)), IBV_WC_REM_ACCESS_ERR);
    }
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

} // namespace
