// SPDX-License-Identifier: BSD-3-Clause
// Several processes on one server: exclusive open, passed descriptors, and the death of a process. Children are started
// before this process has threads, because neither fork nor the sanitizers support the opposite.
#include "soft.h"
#include "steps.h"

#include <csignal>
#include <cstdio>
#include <random>
#include <utility>

using namespace soft;

namespace {

constexpr const char *kName = "0000:19:00.0"; // card 0
constexpr uint64_t kPages = 127;

class Process : public SoftTest {
protected:
    size_t blocks() const {
        size_t count = 0;
        for (const auto &entry : std::filesystem::recursive_directory_iterator(dir()))
            count += entry.path().filename().string().starts_with("block-");
        return count;
    }
};

int open_card(const char *bus_id = kName) { return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id); }

/// The exit code of a child: 0 if its expectations held.
int verdict() {
    std::fflush(stdout);
    return ::testing::Test::HasFailure() ? 1 : 0;
}

/// Kills a child without warning.
int kill_child(Child &child) {
    EXPECT_EQ(kill(child.pid(), SIGKILL), 0);
    return child.join();
}

uint64_t free_memory(int fd) {
    hlthunk_dram_usage_info usage{};
    EXPECT_EQ(hlthunk_get_dram_usage(fd, &usage), 0);
    return usage.dram_free_mem;
}

bool active(int control) {
    hlthunk_open_stats_info stats{};
    EXPECT_EQ(hlthunk_get_open_stats(control, &stats), 0);
    return stats.is_compute_ctx_active != 0;
}

// ---- exclusive open ---------------------------------------------------------------------------------------------

TEST_F(Process, open_card_is_busy_in_other_processes) {
    Child holder([](int socket) {
        const int fd = open_card();
        EXPECT_GE(fd, 0);
        send_byte(socket);
        receive_byte(socket);
        EXPECT_EQ(hlthunk_close(fd), 0);
        send_byte(socket);
        receive_byte(socket);
        return verdict();
    });
    ASSERT_NE(receive_byte(holder.socket()), 0);
    EXPECT_EQ(open_card(), -EBUSY);
    {
        const Card next; // the first free card
        std::array<char, 13> name{};
        EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(next.fd, name.data(), 13), 0);
        EXPECT_STRNE(name.data(), kName);
    }
    send_byte(holder.socket());
    ASSERT_NE(receive_byte(holder.socket()), 0);
    const Card card(kName);
    send_byte(holder.socket());
    EXPECT_EQ(holder.join(), 0);
}

TEST_F(Process, control_node_reports_use_by_another_process) {
    Child holder([](int socket) {
        receive_byte(socket);
        const int fd = open_card();
        EXPECT_GE(fd, 0);
        EXPECT_NE(hlthunk_device_memory_alloc(fd, 2 * kPage, 0, false, false), 0u);
        send_byte(socket);
        receive_byte(socket);
        EXPECT_EQ(close(fd), 0);
        send_byte(socket);
        receive_byte(socket);
        return verdict();
    });
    const int control = hlthunk_open_control(0, nullptr);
    EXPECT_FALSE(active(control));
    EXPECT_EQ(free_memory(control), kPages * kPage);
    send_byte(holder.socket());
    ASSERT_NE(receive_byte(holder.socket()), 0);
    EXPECT_TRUE(active(control));
    EXPECT_EQ(free_memory(control), (kPages - 2) * kPage);
    send_byte(holder.socket());
    ASSERT_NE(receive_byte(holder.socket()), 0);
    EXPECT_FALSE(active(control));
    EXPECT_EQ(free_memory(control), kPages * kPage);
    send_byte(holder.socket());
    EXPECT_EQ(holder.join(), 0);
    EXPECT_EQ(hlthunk_close(control), 0);
}

TEST_F(Process, two_directories_are_two_servers) {
    char other_dir[] = "/dev/shm/softgaudi-test-XXXXXX";
    ASSERT_NE(mkdtemp(other_dir), nullptr);
    Child other([&](int socket) {
        set("SOFTGAUDI_DIR", other_dir);
        set("SOFTGAUDI_CARDS", "1");
        Card card(kName);
        EXPECT_NE(card.memory(kPages * kPage), 0u);
        send_byte(socket);
        receive_byte(socket);
        EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 1);
        return verdict();
    });
    ASSERT_NE(receive_byte(other.socket()), 0);
    {
        Card card(kName);
        EXPECT_EQ(free_memory(card.fd), kPages * kPage);
        EXPECT_NE(card.memory(kPages * kPage), 0u);
        EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8);
    }
    send_byte(other.socket());
    EXPECT_EQ(other.join(), 0);
    std::filesystem::remove_all(other_dir);
}

// ---- death ------------------------------------------------------------------------------------------------------

TEST_F(Process, death_of_the_holder_frees_card_and_memory) {
    Child holder([](int socket) {
        Card card(kName);
        const uint64_t address = card.memory(kPages * kPage);
        card.run(kOnCard, Packets().fill(1, address, 4 * kMiB));
        send_byte(socket, ::testing::Test::HasFailure() ? 'f' : '.');
        receive_byte(socket);
        return 0;
    });
    ASSERT_EQ(receive_byte(holder.socket()), '.');
    EXPECT_EQ(open_card(), -EBUSY);
    EXPECT_EQ(kill_child(holder), 128 + SIGKILL);
    Card card(kName);
    EXPECT_EQ(blocks(), 0u);
    EXPECT_EQ(free_memory(card.fd), kPages * kPage);
    EXPECT_NE(card.memory(kPages * kPage), 0u);
}

TEST_F(Process, death_with_running_work_frees_the_card) {
    Child holder([](int socket) {
        Card card(kName);
        const uint64_t parked = card.submit(kDown, Packets().fence()); // a fence that stays closed
        uint32_t status = 0;
        EXPECT_EQ(card.wait(parked, &status, 0), 0);
        EXPECT_EQ(status, HL_WAIT_CS_STATUS_BUSY);
        send_byte(socket, ::testing::Test::HasFailure() ? 'f' : '.');
        receive_byte(socket);
        return 0;
    });
    ASSERT_EQ(receive_byte(holder.socket()), '.');
    EXPECT_EQ(kill_child(holder), 128 + SIGKILL);
    Card card(kName);
    EXPECT_TRUE(hlthunk_is_device_idle(card.fd));
    card.run(kDown, Packets().nop());
}

TEST_F(Process, next_process_removes_files_of_a_dead_one) {
    Child holder([](int socket) {
        Card card(kName);
        for (int i = 0; i < 5; ++i)
            EXPECT_NE(card.memory(), 0u);
        send_byte(socket);
        receive_byte(socket);
        return 0;
    });
    Child next([](int socket) {
        receive_byte(socket);
        EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8);
        return verdict();
    });
    ASSERT_NE(receive_byte(holder.socket()), 0);
    EXPECT_EQ(blocks(), 5u);
    EXPECT_EQ(kill_child(holder), 128 + SIGKILL);
    send_byte(next.socket());
    EXPECT_EQ(next.join(), 0);
    EXPECT_EQ(blocks(), 0u);
}

TEST_F(Process, new_process_keeps_files_of_a_live_one) {
    Child newcomer([](int socket) {
        receive_byte(socket);
        EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8);
        EXPECT_EQ(open_card(), -EBUSY);
        return verdict();
    });
    Card card(kName);
    auto out = pattern(4096);
    std::vector<unsigned char> back(out.size());
    const uint64_t address = card.memory();
    card.run(kDown, Packets().copy(card.map(out), address, 4096));
    send_byte(newcomer.socket());
    EXPECT_EQ(newcomer.join(), 0);
    EXPECT_EQ(blocks(), 1u);
    card.run(kUp, Packets().copy(address, card.map(back), 4096));
    EXPECT_EQ(out, back);
}

TEST_F(Process, half_created_server_is_created_again) {
    Child maker([](int) {
        EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8);
        return verdict();
    });
    ASSERT_EQ(maker.join(), 0);
    // As if the first process had died after it created each file and before it filled it.
    for (const auto &entry : std::filesystem::recursive_directory_iterator(dir())) {
        if (!entry.is_regular_file() || entry.path().filename() != "state")
            continue;
        const auto size = entry.file_size();
        std::filesystem::resize_file(entry.path(), 0);
        std::filesystem::resize_file(entry.path(), size);
    }
    Card card(kName);
    card.run(kDown, Packets().nop());
}

/// Uses the library until it is killed, and reports every step.
int use_until_killed(int socket) {
    std::vector<char> host(8192);
    for (int i = 0; i < 100'000; ++i) {
        const int fd = open_card();
        EXPECT_GE(fd, 0);
        send_byte(socket);
        const uint64_t handle = hlthunk_device_memory_alloc(fd, kPage, 0, false, false);
        send_byte(socket);
        const uint64_t address = hlthunk_device_memory_map(fd, handle, 0);
        const uint64_t mapped = hlthunk_host_memory_map(fd, host.data(), 0, host.size());
        send_byte(socket);
        const Packets packets = Packets().fill(1, address, 100'000);
        std::memcpy(host.data(), packets.data(), packets.size());
        auto chunk = Card::chunk(kOnCard, mapped, packets.size());
        hlthunk_cs_in in{};
        in.chunks_execute = &chunk;
        in.num_chunks_execute = 1;
        hlthunk_cs_out out{};
        EXPECT_EQ(hlthunk_command_submission(fd, &in, &out), 0);
        send_byte(socket);
        uint32_t status = 0;
        EXPECT_EQ(hlthunk_wait_for_cs(fd, out.seq, kForever, &status), 0);
        const int dmabuf = hlthunk_device_memory_export_dmabuf_fd(fd, address, kPage, 0);
        uint64_t buffer = 0;
        EXPECT_EQ(hlthunk_request_mapped_command_buffer(fd, 4096, &buffer), 0);
        send_byte(socket);
        EXPECT_EQ(hlthunk_destroy_command_buffer(fd, buffer), 0);
        EXPECT_EQ(close(dmabuf), 0);
        EXPECT_EQ(hlthunk_memory_unmap(fd, mapped), 0);
        send_byte(socket);
        EXPECT_EQ(hlthunk_memory_unmap(fd, address), 0);
        EXPECT_EQ(hlthunk_device_memory_free(fd, handle), 0);
        send_byte(socket, ::testing::Test::HasFailure() ? 'f' : '.');
        EXPECT_EQ(hlthunk_close(fd), 0);
    }
    return verdict();
}

TEST_F(Process, death_with_the_lock_held_frees_the_card) {
    const unsigned seed = std::random_device()();
    std::mt19937 random(seed);
    std::printf("seed %u\n", seed);
    std::fflush(stdout);
    for (int round = 0; round < 60; ++round) {
        Child child(use_until_killed);
        // Some die while they create or open the server, the others anywhere.
        const unsigned steps = round % 3 == 0 ? 0 : static_cast<unsigned>(random() % 60);
        for (unsigned i = 0; i < steps; ++i)
            ASSERT_EQ(receive_byte(child.socket()), '.');
        volatile uint64_t spin = random() % 300'000;
        while (spin > 0)
            spin = spin - 1;
        ASSERT_EQ(kill_child(child), 128 + SIGKILL);
        const int fd = open_card();
        ASSERT_GE(fd, 0) << "round " << round;
        ASSERT_EQ(hlthunk_get_device_status_info(fd), HL_DEVICE_STATUS_OPERATIONAL);
        ASSERT_EQ(free_memory(fd), kPages * kPage);
        const uint64_t handle = hlthunk_device_memory_alloc(fd, kPages * kPage, 0, true, false);
        ASSERT_NE(handle, 0u) << strerror(errno);
        ASSERT_NE(hlthunk_device_memory_map(fd, handle, 0), 0u) << strerror(errno);
        ASSERT_EQ(hlthunk_close(fd), 0);
        ASSERT_EQ(blocks(), 0u);
    }
    Card card(kName);
    card.run(kDown, Packets().nop());
}

// ---- shared descriptors -----------------------------------------------------------------------------------------

TEST_F(Process, queue_goes_on_after_the_work_of_a_sharer_that_died) {
    Child submitter([](int socket) {
        Card card(kName);
        send_descriptor(socket, card.fd);
        for (int i = 0; i < 3; ++i)
            card.submit(kDown, Packets().fence()); // never passes
        send_byte(socket);
        receive_byte(socket);
        return 0;
    });
    const int fd = receive_descriptor(submitter.socket());
    ASSERT_GE(fd, 0);
    ASSERT_NE(receive_byte(submitter.socket()), 0);
    {
        Card card(fd);
        const uint32_t before = hard_resets(card.fd);
        const uint64_t behind = card.submit(kDown, Packets().nop());
        uint32_t status = 0;
        EXPECT_EQ(hlthunk_wait_for_cs(card.fd, behind, 0, &status), 0);
        EXPECT_EQ(status, uint32_t{HL_WAIT_CS_STATUS_BUSY}) << "the sharer lives";
        EXPECT_EQ(kill_child(submitter), 128 + SIGKILL);
        EXPECT_EQ(card.wait(behind), 0);
        EXPECT_EQ(card.wait(1), -EIO) << "what it had submitted";
        EXPECT_EQ(hard_resets(card.fd), before) << "the descriptor is still open";
        card.run(kDown, Packets().nop());
    }
    const Card next(kName);
}

TEST_F(Process, passed_descriptor_shares_the_context) {
    Child receiver([](int socket) {
        const int fd = receive_descriptor(socket);
        uint64_t address = 0, handle = 0;
        EXPECT_EQ(read(socket, &address, sizeof address), 8);
        EXPECT_EQ(read(socket, &handle, sizeof handle), 8);
        EXPECT_EQ(free_memory(fd), (kPages - 1) * kPage);
        // The other process's allocation can be mapped here, but not twice at one address.
        const uint64_t other = hlthunk_device_memory_map(fd, handle, address);
        EXPECT_NE(other, 0u);
        EXPECT_NE(other, address);
        EXPECT_EQ(write(socket, &other, sizeof other), 8);
        receive_byte(socket);
        EXPECT_EQ(open_card(), -EBUSY);
        EXPECT_EQ(hlthunk_close(fd), 0);
        return verdict();
    });
    Card card(kName);
    const uint64_t handle = hlthunk_device_memory_alloc(card.fd, kPage, 0, false, false);
    const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
    send_descriptor(receiver.socket(), card.fd);
    EXPECT_EQ(write(receiver.socket(), &address, sizeof address), 8);
    EXPECT_EQ(write(receiver.socket(), &handle, sizeof handle), 8);
    uint64_t other = 0;
    EXPECT_EQ(read(receiver.socket(), &other, sizeof other), 8);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), -EINVAL); // the other process mapped it
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, other), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    send_byte(receiver.socket());
    EXPECT_EQ(receiver.join(), 0);
    EXPECT_NE(card.memory(), 0u); // the other process's close was not the last
}

TEST_F(Process, passed_descriptor_keeps_the_card_busy) {
    Child receiver([](int socket) {
        const int fd = receive_descriptor(socket);
        EXPECT_GE(fd, 0);
        send_byte(socket);
        receive_byte(socket);
        EXPECT_NE(hlthunk_device_memory_alloc(fd, kPage, 0, false, false), 0u);
        EXPECT_EQ(hlthunk_close(fd), 0);
        send_byte(socket);
        receive_byte(socket);
        return verdict();
    });
    {
        const Card card(kName);
        send_descriptor(receiver.socket(), card.fd);
        ASSERT_NE(receive_byte(receiver.socket()), 0);
    }
    EXPECT_EQ(open_card(), -EBUSY);
    send_byte(receiver.socket());
    ASSERT_NE(receive_byte(receiver.socket()), 0);
    const Card again(kName);
    send_byte(receiver.socket());
    EXPECT_EQ(receiver.join(), 0);
}

TEST_F(Process, receiver_of_a_descriptor_can_submit) {
    const auto out = pattern(kMiB + 5);
    Child receiver([&](int socket) {
        const int fd = receive_descriptor(socket);
        uint64_t address = 0;
        EXPECT_EQ(read(socket, &address, sizeof address), 8);
        auto data = out;
        const Packets packets = Packets().copy(hlthunk_host_memory_map(fd, data.data(), 0, data.size()), address,
                                               static_cast<uint32_t>(data.size()));
        std::vector<char> buffer(packets.size());
        std::memcpy(buffer.data(), packets.data(), packets.size());
        auto chunk = Card::chunk(kDown, hlthunk_host_memory_map(fd, buffer.data(), 0, buffer.size()), packets.size());
        hlthunk_cs_in in{};
        in.chunks_execute = &chunk;
        in.num_chunks_execute = 1;
        hlthunk_cs_out result{};
        EXPECT_EQ(hlthunk_command_submission(fd, &in, &result), 0);
        uint32_t status = 0;
        EXPECT_EQ(hlthunk_wait_for_cs(fd, result.seq, kForever, &status), 0);
        EXPECT_EQ(write(socket, &result.seq, sizeof result.seq), 8);
        receive_byte(socket);
        return verdict();
    });
    Card card(kName);
    const uint64_t address = card.memory();
    card.run(kDown, Packets().nop()); // uses number 1
    send_descriptor(receiver.socket(), card.fd);
    EXPECT_EQ(write(receiver.socket(), &address, sizeof address), 8);
    uint64_t seq = 0;
    ASSERT_EQ(read(receiver.socket(), &seq, sizeof seq), 8);
    EXPECT_EQ(seq, 2u);           // numbers belong to the context
    EXPECT_EQ(card.wait(seq), 0); // and so do waits
    std::vector<unsigned char> back(out.size());
    card.run(kUp, Packets().copy(address, card.map(back), static_cast<uint32_t>(back.size())));
    EXPECT_EQ(out, back);
    send_byte(receiver.socket());
    EXPECT_EQ(receiver.join(), 0);
}

TEST_F(Process, two_processes_share_one_queue) {
    constexpr int kRounds = 100;
    const auto add_many = [](Card &card, uint32_t object) {
        uint64_t last = 0;
        for (int i = 0; i < kRounds; ++i)
            last = card.submit(kDown, Packets().add_object(object, 1));
        EXPECT_EQ(card.wait(last), 0);
    };
    Child receiver([&](int socket) {
        const int fd = receive_descriptor(socket);
        {
            Card card("0000:1a:00.0"); // only for its helper functions; the descriptor is the passed one
            const int own = std::exchange(card.fd, fd);
            add_many(card, 1000);
            card.fd = own;
        }
        return verdict();
    });
    Card card(kName);
    send_descriptor(receiver.socket(), card.fd);
    add_many(card, 1000);
    EXPECT_EQ(receiver.join(), 0);
    // The object equals the sum of all.
    card.run(kDown, Packets().monitor(300, 1000, 2 * kRounds, fence_register(kDown), 1).fence());
}

TEST_F(Process, host_memory_of_another_process_is_copied_or_faults) {
    const auto out = pattern(10000);
    Child receiver([&](int socket) {
        const int fd = receive_descriptor(socket);
        auto data = out;
        const uint64_t address = hlthunk_host_memory_map(fd, data.data(), 0, data.size());
        EXPECT_NE(address, 0u);
        EXPECT_EQ(write(socket, &address, sizeof address), 8);
        receive_byte(socket);
        return verdict();
    });
    Card card(kName);
    send_descriptor(receiver.socket(), card.fd);
    uint64_t foreign = 0;
    ASSERT_EQ(read(receiver.socket(), &foreign, sizeof foreign), 8);
    std::vector<unsigned char> back(out.size());
    uint32_t status = 0;
    const uint64_t seq =
        card.submit(kDown, Packets().copy(foreign, card.map(back), static_cast<uint32_t>(back.size())));
    const int result = card.wait(seq, &status);
    if (result == 0) {
        EXPECT_EQ(out, back);
    } else { // where the system forbids access to the memory of other processes
        EXPECT_EQ(result, -EIO);
        EXPECT_EQ(status, HL_WAIT_CS_STATUS_ABORTED);
        EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_IN_RESET);
    }
    send_byte(receiver.socket());
    EXPECT_EQ(receiver.join(), 0);
}

TEST_F(Process, host_memory_of_a_dead_process_faults) {
    Child receiver([&](int socket) {
        const int fd = receive_descriptor(socket);
        std::vector<char> data(10000);
        const uint64_t address = hlthunk_host_memory_map(fd, data.data(), 0, data.size());
        EXPECT_EQ(write(socket, &address, sizeof address), 8);
        return verdict();
    });
    {
        Card card(kName);
        const int notifier = hlthunk_notifier_create(card.fd);
        send_descriptor(receiver.socket(), card.fd);
        uint64_t foreign = 0;
        ASSERT_EQ(read(receiver.socket(), &foreign, sizeof foreign), 8);
        EXPECT_EQ(receiver.join(), 0);
        const uint64_t device = card.memory();
        EXPECT_EQ(card.wait(card.submit(kDown, Packets().copy(foreign, device, 10000))), -EIO);
        uint64_t events = 0, count = 0;
        EXPECT_EQ(hlthunk_notifier_recv(card.fd, notifier, &events, &count, 0, UINT32_MAX), 0);
        EXPECT_NE(events & HL_NOTIFIER_EVENT_PAGE_FAULT, 0u);
        EXPECT_EQ(hlthunk_notifier_release(card.fd, notifier), 0);
    }
    Card card(kName);
    card.run(kDown, Packets().nop());
}

TEST_F(Process, forked_child_uses_the_inherited_descriptor) {
    const int fd = open_card();
    ASSERT_GE(fd, 0);
    const uint64_t handle = hlthunk_device_memory_alloc(fd, kPage, 0, false, false);
    const uint64_t address = hlthunk_device_memory_map(fd, handle, 0);
    const auto out = pattern(kMiB);
    Child child([&](int socket) {
        EXPECT_EQ(free_memory(fd), (kPages - 1) * kPage);
        EXPECT_EQ(open_card(), -EBUSY);
        {
            Card other("0000:1a:00.0"); // only for its helper functions; the descriptor is the inherited one
            const int own = std::exchange(other.fd, fd);
            auto data = out;
            other.run(kDown, Packets().copy(other.map(data), address, static_cast<uint32_t>(data.size())));
            other.fd = own;
        }
        send_byte(socket);
        receive_byte(socket);
        return verdict();
    });
    ASSERT_NE(receive_byte(child.socket()), 0);
    EXPECT_EQ(hlthunk_close(fd), 0);
    EXPECT_EQ(open_card(), -EBUSY); // the child still has it open
    send_byte(child.socket());
    EXPECT_EQ(child.join(), 0);
    const Card card(kName);
}

TEST_F(Process, exit_of_a_forked_child_leaves_the_parent_working) {
    const int fd = open_card();
    ASSERT_GE(fd, 0);
    const uint64_t handle = hlthunk_device_memory_alloc(fd, kPage, 0, false, false);
    Child child([&](int) {
        EXPECT_NE(hlthunk_device_memory_map(fd, handle, 0), 0u);
        EXPECT_EQ(hlthunk_close(fd), 0);
        return verdict();
    });
    EXPECT_EQ(child.join(), 0);
    EXPECT_EQ(hlthunk_get_device_status_info(fd), HL_DEVICE_STATUS_OPERATIONAL);
    EXPECT_EQ(hlthunk_device_memory_free(fd, handle), -EINVAL); // the context has the child's mapping
    EXPECT_EQ(hlthunk_close(fd), 0);
}

// ---- exports ----------------------------------------------------------------------------------------------------

/// Opens the card, makes it write `bytes`, and sends an export of them.
int export_and_send(int socket, const std::vector<unsigned char> &bytes) {
    Card card(kName);
    auto data = bytes;
    const uint64_t address = card.memory();
    card.run(kDown, Packets().copy(card.map(data), address + 4096, static_cast<uint32_t>(data.size())));
    const int dmabuf =
        hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, address, kPage - 4096, 4096, O_RDWR | O_CLOEXEC);
    EXPECT_GE(dmabuf, 0);
    send_descriptor(socket, dmabuf);
    receive_byte(socket);
    EXPECT_EQ(close(dmabuf), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL); // the other process still has it open
    return verdict();
}

TEST_F(Process, export_of_a_dead_process_keeps_the_card_busy) {
    const auto out = pattern(100000);
    for (const bool killed : {false, true}) {
        Child exporter([&](int socket) { return export_and_send(socket, out); });
        const int dmabuf = receive_descriptor(exporter.socket());
        ASSERT_GE(dmabuf, 0);
        if (killed) {
            EXPECT_EQ(kill_child(exporter), 128 + SIGKILL);
        } else {
            send_byte(exporter.socket());
            EXPECT_EQ(exporter.join(), 0);
        }
        const int control = hlthunk_open_control(0, nullptr);
        EXPECT_EQ(open_card(), -EBUSY);
        EXPECT_TRUE(active(control));
        std::vector<unsigned char> back(out.size());
        EXPECT_EQ(pread(dmabuf, back.data(), back.size(), 4096), static_cast<ssize_t>(back.size()));
        EXPECT_EQ(out, back);
        EXPECT_EQ(close(dmabuf), 0);
        EXPECT_FALSE(active(control));
        const Card card(kName);
        EXPECT_EQ(blocks(), 0u);
        EXPECT_EQ(free_memory(card.fd), kPages * kPage);
        EXPECT_EQ(hlthunk_close(control), 0);
    }
}

TEST_F(Process, death_of_the_importer_frees_the_card) {
    Child importer([](int socket) {
        const int dmabuf = receive_descriptor(socket);
        EXPECT_GE(dmabuf, 0);
        send_byte(socket);
        receive_byte(socket);
        return 0;
    });
    Card card(kName);
    const uint64_t address = card.memory();
    const int dmabuf = hlthunk_device_memory_export_dmabuf_fd(card.fd, address, kPage, 0);
    send_descriptor(importer.socket(), dmabuf);
    ASSERT_NE(receive_byte(importer.socket()), 0);
    EXPECT_EQ(close(dmabuf), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
    EXPECT_EQ(kill_child(importer), 128 + SIGKILL);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
}

TEST_F(Process, passed_export_keeps_its_name) {
    Child exporter([](int socket) { return export_and_send(socket, pattern(4096)); });
    const int dmabuf = receive_descriptor(exporter.socket());
    ASSERT_GE(dmabuf, 0);
    std::array<char, 4096> name{};
    EXPECT_GT(readlink(("/proc/self/fd/" + std::to_string(dmabuf)).c_str(), name.data(), name.size() - 1), 0);
    const std::string part = "/dmabuf-4096-" + std::to_string(kPage - 4096) + "-";
    EXPECT_NE(std::string(name.data()).find(part), std::string::npos) << name.data();
    send_byte(exporter.socket());
    EXPECT_EQ(exporter.join(), 0);
    EXPECT_EQ(close(dmabuf), 0);
}

} // namespace
