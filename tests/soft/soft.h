// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the tests of the software Gaudi. Each test is a process of its own (ctest runs them so) with a server in a
// fresh directory: set variables with `set` before the first call of the library.
#pragma once

#include "thunk/abi.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace soft {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kGiB = 1 << 30;
inline constexpr uint64_t kPage = 768 * kMiB;    // of Gaudi2
inline constexpr uint64_t kForever = UINT64_MAX; // for wait_for_cs
inline constexpr uint64_t kCfg = 0x1000007FF8000000;

inline constexpr uint32_t kDown = 0, kUp = 4, kOnCard = 8; // queues

inline void set(const char *name, const std::string &value) { setenv(name, value.c_str(), 1); }

/// An empty directory on tmpfs whose name is in a variable; removed by the destructor.
class FreshDirectory {
public:
    FreshDirectory(const char *variable, std::string name) {
        name = "/dev/shm/" + name + "-test-XXXXXX";
        m_name = mkdtemp(name.data());
        set(variable, m_name);
    }
    ~FreshDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(m_name, ignored);
    }
    FreshDirectory(const FreshDirectory &) = delete;
    FreshDirectory &operator=(const FreshDirectory &) = delete;

    const std::string &name() const { return m_name; }

private:
    std::string m_name;
};

class SoftTest : public ::testing::Test {
protected:
    const std::string &dir() const { return m_dir.name(); }

private:
    FreshDirectory m_dir{"SOFTGAUDI_DIR", "softgaudi"};
};

// ---- packets ----------------------------------------------------------------------------------------------------

/// A command buffer in the card's format, built packet by packet.
class Packets {
public:
    Packets &copy(uint64_t source, uint64_t destination, uint32_t size, unsigned endian = 0) {
        return add({size, 0x09000000 | endian << 1}).address(source).address(destination);
    }
    Packets &fill(uint64_t value, uint64_t destination, uint32_t size) {
        return add({size, 0x09000000 | 1u << 4}).address(value).address(destination);
    }
    /// With an engine barrier: executed after the copies before it.
    Packets &message(uint64_t address_, uint32_t value) { return add({value, 0x23000000}).address(address_); }
    Packets &short_message(unsigned base, uint32_t offset, uint32_t value) {
        return add({value, 0x04000000 | base << 22 | offset});
    }
    Packets &set_object(uint32_t object, uint32_t value) { return short_message(1, object * 4, value); }
    Packets &add_object(uint32_t object, uint32_t value) { return short_message(1, object * 4, value | 1u << 31); }
    /// Sends `data` to `address` once the object equals (or reaches) `value`.
    Packets &monitor(uint32_t id, uint32_t object, uint32_t value, uint64_t address, uint32_t data, bool equal = true,
                     uint32_t config = 0) {
        short_message(0, 0x8000 + 4 * id, config | object / 8 >> 8 << 16);
        short_message(0, 4 * id, static_cast<uint32_t>(address));
        short_message(0, 0x2000 + 4 * id, static_cast<uint32_t>(address >> 32));
        short_message(0, 0x4000 + 4 * id, data);
        const uint32_t mask = ~(1u << object % 8) & 0xFF;
        return short_message(0, 0x6000 + 4 * id,
                             (object / 8 & 0xFF) | mask << 8 | static_cast<uint32_t>(equal) << 16 | value << 17);
    }
    Packets &fence(uint32_t target = 1, uint32_t decrement = 1, uint32_t id = 0) {
        return add({decrement | target << 16 | id << 30, 0x08000000});
    }
    Packets &nested(uint64_t address_, uint32_t size, bool upper = false) {
        return add({size, 0x05000000 | static_cast<uint32_t>(upper) << 5}).address(address_);
    }
    Packets &nop() { return add({0, 0x0A000000}); }
    Packets &stop() { return add({0, 0x0B000000}); }
    Packets &add(std::initializer_list<uint32_t> words) {
        for (const uint32_t word : words)
            m_words.push_back(word);
        return *this;
    }
    Packets &address(uint64_t value) { return add({static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)}); }

    const void *data() const { return m_words.data(); }
    uint32_t size() const { return static_cast<uint32_t>(m_words.size() * sizeof(uint32_t)); }

private:
    std::vector<uint32_t> m_words;
};

/// Address of fence 0 of a stream of PDMA 0 (queues 0 to 3), as a target of messages.
inline uint64_t fence_register(uint32_t queue) { return kCfg + 0x4C8A290 + (queue / 4) * 0x10000 + queue % 4 * 4; }

// ---- a card -----------------------------------------------------------------------------------------------------

/// One open card with the steps that most tests need; a step that fails fails the test.
class Card {
public:
    /// Takes a descriptor that was received.
    explicit Card(int opened) : fd(opened) {}
    explicit Card(const char *bus_id = nullptr) : fd(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id)) {
        EXPECT_GE(fd, 0) << strerror(errno);
    }
    ~Card() {
        if (fd >= 0) {
            EXPECT_EQ(hlthunk_close(fd), 0);
        }
    }
    Card(const Card &) = delete;
    Card &operator=(const Card &) = delete;

    /// Allocates and maps device memory.
    uint64_t memory(uint64_t size = kPage) {
        const uint64_t handle = hlthunk_device_memory_alloc(fd, size, 0, false, false);
        EXPECT_NE(handle, 0u) << strerror(errno);
        const uint64_t address = hlthunk_device_memory_map(fd, handle, 0);
        EXPECT_NE(address, 0u) << strerror(errno);
        return address;
    }
    uint64_t map(void *pointer, uint64_t size) {
        const uint64_t address = hlthunk_host_memory_map(fd, pointer, 0, size);
        EXPECT_NE(address, 0u) << strerror(errno);
        return address;
    }
    template <class T>
    uint64_t map(std::vector<T> &data) {
        return map(data.data(), data.size() * sizeof(T));
    }

    /// Maps a command buffer, until the card is closed.
    uint64_t place(const Packets &packets) {
        m_buffers.emplace_back(static_cast<const char *>(packets.data()),
                               static_cast<const char *>(packets.data()) + packets.size());
        return map(m_buffers.back());
    }
    int try_submit(std::span<hl_cs_chunk> chunks, uint64_t &seq, uint32_t flags = 0, uint32_t timeout_s = 0) {
        hlthunk_cs_in in{};
        in.chunks_execute = chunks.data();
        in.num_chunks_execute = static_cast<uint32_t>(chunks.size());
        in.flags = flags;
        hlthunk_cs_out out{};
        const int result = timeout_s ? hlthunk_command_submission_timeout(fd, &in, &out, timeout_s)
                                     : hlthunk_command_submission(fd, &in, &out);
        seq = out.seq;
        return result;
    }
    static hl_cs_chunk chunk(uint32_t queue, uint64_t address, uint32_t size) {
        hl_cs_chunk chunk{};
        chunk.queue_index = queue;
        chunk.cb_handle = address;
        chunk.cb_size = size;
        chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
        return chunk;
    }
    uint64_t submit(uint32_t queue, const Packets &packets, uint32_t flags = 0, uint32_t timeout_s = 0) {
        std::array chunks = {chunk(queue, place(packets), packets.size())};
        uint64_t seq = 0;
        EXPECT_EQ(try_submit(chunks, seq, flags, timeout_s), 0) << strerror(errno);
        return seq;
    }
    int wait(uint64_t seq, uint32_t *status = nullptr, uint64_t timeout_us = kForever) {
        uint32_t ignored = 0;
        return hlthunk_wait_for_cs(fd, seq, timeout_us, status ? status : &ignored);
    }
    /// Submits and waits; the packets must succeed.
    void run(uint32_t queue, const Packets &packets) { EXPECT_EQ(wait(submit(queue, packets)), 0) << strerror(errno); }

    int fd;

private:
    std::vector<std::vector<char>> m_buffers;
};

/// Bytes that depend on position and seed.
inline std::vector<unsigned char> pattern(size_t size, unsigned seed = 1) {
    std::vector<unsigned char> bytes(size);
    uint32_t state = seed * 2654435761u + 1;
    for (unsigned char &byte : bytes) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<unsigned char>(state >> 24);
    }
    return bytes;
}

// ---- other processes --------------------------------------------------------------------------------------------

/// Runs `work` in a forked child without the state of the library; the result is the exit code.
class Child {
public:
    explicit Child(const std::function<int(int)> &work) {
        std::array<int, 2> ends{};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        m_socket = ends[0];
        m_pid = fork();
        if (m_pid == 0) {
            close(ends[0]);
            _exit(work(ends[1]));
        }
        close(ends[1]);
    }
    ~Child() {
        if (m_socket >= 0)
            close(m_socket);
        if (m_pid > 0)
            join();
    }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    int socket() const { return m_socket; }
    pid_t pid() const { return m_pid; }
    int join() {
        int status = 0;
        waitpid(m_pid, &status, 0);
        m_pid = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

private:
    pid_t m_pid = -1;
    int m_socket = -1;
};

inline void send_byte(int socket, char byte = '.') { ASSERT_EQ(write(socket, &byte, 1), 1); }
/// Waits for a byte from the other process; 0 when that has exited.
inline char receive_byte(int socket) {
    char byte = 0;
    return read(socket, &byte, 1) == 1 ? byte : '\0';
}

inline void send_descriptor(int socket, int fd) {
    char byte = 'd';
    iovec data{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    ASSERT_EQ(sendmsg(socket, &message, 0), 1);
}

inline int receive_descriptor(int socket) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

} // namespace soft
