// SPDX-License-Identifier: BSD-3-Clause
// Several processes on one fabric: transfers between them, also with a stopped and a dead one. Children are started
// before this process has threads, because neither fork nor the sanitizers support the opposite.
#include "hca.h"

#include "os/system_call.h"

#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <sched.h>

using namespace hca;
using soft::Card;
using soft::kPage;
using soft::Packets;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

constexpr size_t kSize = (3 << 20) + 17;

class Processes : public HcaTest {};

int verdict() {
    std::fflush(stdout);
    return ::testing::Test::HasFailure() ? 1 : 0;
}

/// One of two processes, with memory that the peer may access and a queue pair to the peer.
struct Side {
    explicit Side(int device = 0, std::vector<unsigned char> bytes = std::vector<unsigned char>(kSize))
        : data(std::move(bytes)), node(device), mr(node.reg(data)), qp(node.queue_pair()) {}
    explicit Side(Child &child) : Side() { meet(child.socket()); }

    /// Connects with the peer at the other end of the socket, which may access `shared`.
    void meet(int socket, const ibv_mr *shared) {
        give(socket, {qp->qp_num, node.lid(), reinterpret_cast<uint64_t>(shared->addr), shared->rkey});
        peer = take(socket);
        connect(qp, peer);
        send_byte(socket);
        EXPECT_NE(receive_byte(socket), 0); // the peer is connected too
    }
    void meet(int socket) { meet(socket, mr); }

    /// Transfers all data from or to the peer.
    Request whole(ibv_wr_opcode opcode, uint64_t offset = 0) const {
        return Request(opcode).all(mr).remote(peer.address + offset, peer.rkey);
    }
    ibv_wc_status run(Request request) const { return status_of(qp, request); }
    ibv_wc_status read(uint64_t offset = 0) const { return run(whole(IBV_WR_RDMA_READ, offset)); }
    ibv_wc_status write() const { return run(whole(IBV_WR_RDMA_WRITE)); }
    ibv_wc_status send(size_t size) const { return run(Request(IBV_WR_SEND).piece(data.data(), size, mr->lkey)); }

    std::vector<unsigned char> data;
    Node node;
    const ibv_mr *mr;
    ibv_qp *qp;
    Peer peer;
};

/// A process with memory that others access. It does nothing until it is asked to exit.
int passive(int socket) {
    Side side(1, pattern(kSize, 3));
    EXPECT_EQ(to_init(side.qp), 0);
    for (uint64_t i = 0; i < 8; ++i)
        EXPECT_EQ(receive(side.qp, side.mr, i, 4096, i * 4096), 0);
    side.meet(socket);
    receive_byte(socket);
    return verdict();
}

ibv_mr *register_block(const Card &card, uint64_t block, const Node &node) {
    const int fd = hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, block, kPage, 0, O_RDWR | O_CLOEXEC);
    ibv_mr *mr = ibv_reg_dmabuf_mr(node.pd, 0, kPage, block, fd, kAll);
    EXPECT_NE(mr, nullptr);
    close(fd);
    return mr;
}

void stop(const Child &child) {
    ASSERT_EQ(kill(child.pid(), SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child.pid(), &status, WUNTRACED), child.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
}

/// Gives up the capability to trace every process.
void drop_right_to_trace() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    ASSERT_EQ(gaudi::os::system_call(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    ASSERT_EQ(gaudi::os::system_call(SYS_capset, &header, data), 0);
}

/// Lets a child exit that waits for a byte.
void end(Child &child) {
    ASSERT_EQ(kill(child.pid(), SIGCONT), 0);
    send_byte(child.socket());
    EXPECT_EQ(child.join(), 0);
}

void end_by_force(Child &child) {
    ASSERT_EQ(kill(child.pid(), SIGKILL), 0);
    EXPECT_EQ(child.join(), 128 + SIGKILL);
}

TEST_F(Processes, both_write_to_each_other) {
    const auto exchange = [](int socket, unsigned seed) {
        Side self(static_cast<int>(seed), pattern(kSize, seed));
        std::vector<unsigned char> received(kSize);
        self.meet(socket, self.node.reg(received));
        EXPECT_EQ(self.write(), IBV_WC_SUCCESS);
        send_byte(socket);
        EXPECT_NE(receive_byte(socket), 0);
        EXPECT_EQ(received, pattern(kSize, 1 - seed));
        EXPECT_EQ(self.read(), IBV_WC_SUCCESS);
        EXPECT_EQ(self.data, pattern(kSize, seed)); // what it had written there
        send_byte(socket);
        receive_byte(socket);
    };
    Child child([&](int socket) {
        exchange(socket, 1);
        return verdict();
    });
    exchange(child.socket(), 0);
    EXPECT_EQ(child.join(), 0);
}

TEST_F(Processes, message_wakes_a_sleeping_process) {
    Child child([](int socket) {
        Node first(1); // only to get other ids than the parent
        ibv_comp_channel *channel = ibv_create_comp_channel(first.context);
        {
            Node node(1, 64, channel);
            std::vector<unsigned char> data(100);
            const ibv_mr *mr = node.reg(data);
            ibv_qp *qp = node.queue_pair();
            EXPECT_EQ(to_init(qp), 0);
            EXPECT_EQ(receive(qp, mr, 1), 0);
            EXPECT_EQ(ibv_req_notify_cq(node.recv_cq, 0), 0);
            give(socket, {qp->qp_num, node.lid(), 0, 0});
            EXPECT_EQ(to_rtr(qp, take(socket)), 0);
            send_byte(socket);
            ibv_cq *which = nullptr;
            void *context = nullptr;
            EXPECT_EQ(ibv_get_cq_event(channel, &which, &context), 0); // sleeps here
            EXPECT_EQ(which, node.recv_cq);
            ibv_ack_cq_events(which, 1);
            EXPECT_EQ(wait(node.recv_cq).byte_len, 100u);
            EXPECT_EQ(data, pattern(100));
        }
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
        return verdict();
    });
    Node node;
    std::vector<unsigned char> data = pattern(100);
    const ibv_mr *mr = node.reg(data);
    ibv_qp *qp = node.queue_pair();
    give(child.socket(), {qp->qp_num, node.lid(), 0, 0});
    connect(qp, take(child.socket()));
    ASSERT_NE(receive_byte(child.socket()), 0);
    Request send(IBV_WR_SEND);
    EXPECT_EQ(status_of(qp, send.all(mr)), IBV_WC_SUCCESS);
    EXPECT_EQ(child.join(), 0);
}

TEST_F(Processes, stopped_process_can_be_read_written_and_sent_to) {
    Child child(passive);
    Side side(child);
    stop(child);
    EXPECT_EQ(side.read(), IBV_WC_SUCCESS);
    EXPECT_EQ(side.data, pattern(kSize, 3));
    std::ranges::copy(pattern(kSize, 8), side.data.begin());
    EXPECT_EQ(side.write(), IBV_WC_SUCCESS);
    EXPECT_EQ(side.send(4096), IBV_WC_SUCCESS);
    std::ranges::fill(side.data, 0);
    EXPECT_EQ(side.read(), IBV_WC_SUCCESS);
    EXPECT_EQ(side.data, pattern(kSize, 8));
    end(child);
}

TEST_F(Processes, card_memory_of_a_stopped_process_can_be_read) {
    Child child([](int socket) {
        Card card;
        const uint64_t block = card.memory();
        std::vector<unsigned char> data = pattern(kSize, 5);
        card.run(soft::kDown, Packets().copy(card.map(data), block + 64, static_cast<uint32_t>(kSize)));
        Side side(1);
        ibv_mr *mr = register_block(card, block, side.node);
        side.node.adopt(mr);
        side.meet(socket, mr);
        receive_byte(socket);
        return verdict();
    });
    const Side side(child);
    stop(child);
    EXPECT_EQ(side.read(64), IBV_WC_SUCCESS);
    EXPECT_EQ(side.data, pattern(kSize, 5));
    end(child);
}

TEST_F(Processes, deregistration_frees_memory_that_a_peer_read) {
    Child child([](int socket) {
        Card card;
        const uint64_t block = card.memory();
        Side side(1);
        ibv_mr *mr = register_block(card, block, side.node);
        side.meet(socket, mr);
        receive_byte(socket);
        EXPECT_NE(hlthunk_memory_unmap(card.fd, block), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        EXPECT_EQ(hlthunk_memory_unmap(card.fd, block), 0);
        return verdict();
    });
    const Side side(child);
    EXPECT_EQ(side.read(), IBV_WC_SUCCESS);
    end(child);
}

TEST_F(Processes, memory_of_untraceable_process_is_refused_with_the_reason) {
    Child child([](int socket) {
        Side side(1);
        side.meet(socket);
        EXPECT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
        send_byte(socket);
        receive_byte(socket);
        return verdict();
    });
    const Side side(child);
    ASSERT_NE(receive_byte(child.socket()), 0);
    drop_right_to_trace();
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(side.read(), IBV_WC_REM_OP_ERR);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("cannot access the memory of process " + std::to_string(child.pid())),
                      HasSubstr("the right to trace")));
    end(child);
}

// ---- death

TEST_F(Processes, death_of_the_peer_exceeds_the_retries) {
    Child child(passive);
    const Side side(child);
    ASSERT_EQ(receive(side.qp, side.mr, 77), 0);
    end_by_force(child);
    std::vector<Request> requests;
    requests.emplace_back(IBV_WR_RDMA_READ, 1u).all(side.mr).remote(side.peer.address, side.peer.rkey);
    requests.emplace_back(IBV_WR_SEND, 2u).piece(side.data.data(), 10, side.mr->lkey);
    for (Request &request : requests)
        ASSERT_EQ(request.post(side.qp), 0);
    const ibv_wc first = wait(side.node.send_cq), second = wait(side.node.send_cq);
    EXPECT_EQ(first.status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(first.wr_id, 1u);
    EXPECT_EQ(second.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state(side.qp), IBV_QPS_ERR);
    const ibv_wc flushed = wait(side.node.recv_cq);
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.wr_id, 77u);
}

TEST_F(Processes, death_ends_a_send_waiting_for_a_receive) {
    Child child([](int socket) {
        Side side(1);
        side.meet(socket); // without a receive
        receive_byte(socket);
        return 0;
    });
    const Side side(child);
    ASSERT_EQ(side.whole(IBV_WR_SEND).post(side.qp), 0);
    end_by_force(child);
    EXPECT_EQ(wait(side.node.send_cq).status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Processes, death_during_traffic_leaves_other_processes_working) {
    const std::vector<unsigned char> some(1 << 16);
    for (int round = 0; round < 10; ++round) {
        Child victim([&](int socket) {
            Side side(1, some);
            side.meet(socket);
            for (int i = 0; i < 1'000'000; ++i) // until it is killed
                side.write();
            return 1;
        });
        Child partner([&](int socket) {
            Side side(0, some);
            side.meet(victim.socket());
            ibv_wc_status last = IBV_WC_SUCCESS;
            for (int alive = 1; (last = side.write()) == IBV_WC_SUCCESS; ++alive)
                if (alive == 20)
                    send_byte(socket); // traffic has begun
            EXPECT_EQ(last, IBV_WC_RETRY_EXC_ERR);
            return verdict();
        });
        ASSERT_NE(receive_byte(partner.socket()), 0);
        end_by_force(victim);
        EXPECT_EQ(partner.join(), 0);
    }
    // The fabric still works, and the entries of the dead process are free.
    Node node;
    std::vector<unsigned char> data(100);
    const ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(status_of(pair.here, write.piece(data.data(), 10, mr->lkey).remote(mr, 50)), IBV_WC_SUCCESS);
}

TEST_F(Processes, entries_of_dead_processes_are_reclaimed) {
    Child child([](int socket) {
        auto *node = new Node;
        EXPECT_NE(ibv_create_comp_channel(node->context), nullptr);
        node->queue_pair();
        send_byte(socket);
        receive_byte(socket);
        return 0;
    });
    ASSERT_NE(receive_byte(child.socket()), 0);
    const auto fifos = [&] {
        size_t count = 0;
        for (const auto &entry : std::filesystem::directory_iterator(fabric()))
            count += entry.is_fifo();
        return count;
    };
    EXPECT_EQ(fifos(), 2u);
    end_by_force(child);
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    EXPECT_EQ(fifos(), 0u);
}

// ---- fork, namespaces

TEST_F(Processes, forked_child_cannot_use_the_parents_context) {
    Node node;
    std::vector<unsigned char> data(100);
    ibv_mr *mr = node.reg(data);
    const Pair pair(node, node);
    Request write(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(write.all(mr).remote(mr).post(pair.here), 0);
    Child child([&](int) {
        ibv_wc wc{};
        EXPECT_EQ(ibv_poll_cq(node.send_cq, 1, &wc), -1); // the completion belongs to the parent
        EXPECT_EQ(ibv_req_notify_cq(node.send_cq, 0), ENODEV);
        EXPECT_EQ(write.post(pair.here), ENODEV);
        EXPECT_EQ(receive(pair.here, mr, 1), ENODEV);
        EXPECT_EQ(to_error(pair.here), ENODEV);
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        EXPECT_EQ(ibv_query_qp(pair.here, &attr, 0, &init), ENODEV);
        ibv_device_attr device{};
        EXPECT_EQ(ibv_query_device(node.context, &device), ENODEV);
        ibv_port_attr port{};
        EXPECT_EQ(ibv_query_port(node.context, 1, &port), ENODEV);
        EXPECT_EQ(ibv_alloc_pd(node.context), nullptr);
        EXPECT_EQ(ibv_reg_mr(node.pd, data.data(), 1, 0), nullptr);
        EXPECT_EQ(ibv_reg_dmabuf_mr(node.pd, 0, 4096, 0, -1, 0), nullptr);
        EXPECT_EQ(errno, ENODEV);
        EXPECT_EQ(ibv_create_comp_channel(node.context), nullptr);
        EXPECT_EQ(ibv_create_cq(node.context, 1, nullptr, nullptr, 0), nullptr);
        EXPECT_EQ(ibv_create_qp(node.pd, &init), nullptr);
        ibv_srq_init_attr srq{};
        EXPECT_EQ(ibv_create_srq(node.pd, &srq), nullptr);
        ibv_ah_attr path{};
        EXPECT_EQ(ibv_create_ah(node.pd, &path), nullptr);
        ibv_async_event event{};
        EXPECT_EQ(ibv_get_async_event(node.context, &event), -1);
        EXPECT_EQ(errno, ENODEV);
        ibv_comp_channel channel{};
        channel.context = node.context;
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        EXPECT_EQ(ibv_get_cq_event(&channel, &cq, &context), -1);
        // Destruction in the child leaves the parent's objects alone.
        EXPECT_EQ(ibv_destroy_qp(pair.here), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        // The child can open devices itself.
        Node own;
        std::vector<unsigned char> bytes(10);
        const ibv_mr *region = own.reg(bytes);
        const Pair loop(own, own);
        Request copy(IBV_WR_RDMA_WRITE);
        EXPECT_EQ(status_of(loop.here, copy.piece(bytes.data(), 5, region->lkey).remote(region, 5)), IBV_WC_SUCCESS);
        return verdict();
    });
    EXPECT_EQ(child.join(), 0);
    EXPECT_EQ(wait(node.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(status_of(pair.here, write), IBV_WC_SUCCESS);
}

TEST_F(Processes, network_namespaces_with_one_directory_share_the_fabric) {
    Child child([](int socket) {
        // Tries without a user namespace first: a process with threads, as under TSan, cannot create one.
        EXPECT_TRUE(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) << strerror(errno);
        return passive(socket) + verdict();
    });
    const Side side(child);
    EXPECT_EQ(side.read(), IBV_WC_SUCCESS);
    EXPECT_EQ(side.data, pattern(kSize, 3));
    EXPECT_EQ(side.send(100), IBV_WC_SUCCESS);
    end(child);
}

} // namespace
