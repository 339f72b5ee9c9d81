// SPDX-License-Identifier: BSD-3-Clause
// Runs bytes as a command buffer, on a minimal bus and on a whole card, and aborts when an invariant is violated. Used
// by the fuzzer and by tests with handmade buffers.
#pragma once

#include "card.h"
#include "interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace soft::fuzz {

inline void require(bool holds, const char *what) {
    if (holds)
        return;
    std::fprintf(stderr, "must not happen: %s\n", what);
    std::abort();
}

/// A small memory that contains the command buffer, so that buffers can call and change themselves.
class SmallBus final : public softgaudi::Bus {
public:
    static constexpr size_t kBytes = 16384;
    static constexpr uint64_t kPatience = 20'000; // packets until cancellation
    using Trap = softgaudi::Trap;
    using MaybeTrap = softgaudi::MaybeTrap;

    explicit SmallBus(std::span<const unsigned char> program) {
        std::copy_n(program.begin(), std::min(program.size(), m_memory.size()), m_memory.begin());
    }

    size_t fetch(uint64_t address, std::span<unsigned char> out) override {
        running();
        require(!out.empty() && out.size() <= 4096, "a fetch of a strange size");
        const size_t room = reachable(address);
        // Stops at the end of a line, because callers must handle short reads.
        const size_t size = std::min({out.size(), room, 64 - address % 64});
        std::memcpy(out.data(), m_memory.data() + address % (2 * kBytes), size);
        if (size == 0)
            trap(address, false);
        return size;
    }
    MaybeTrap move(const softgaudi::Transfer &transfer) override {
        running();
        require(transfer.size > 0 && transfer.size <= UINT32_MAX, "a copy of a strange size");
        require(transfer.swap == 1 || transfer.swap == 2 || transfer.swap == 4 || transfer.swap == 8,
                "elements of a strange size");
        if (reachable(transfer.source) < transfer.size)
            return trap(transfer.source, false);
        if (reachable(transfer.destination) < transfer.size)
            return trap(transfer.destination, true);
        std::memmove(at(transfer.destination), at(transfer.source), transfer.size);
        return {};
    }
    MaybeTrap fill(uint64_t destination, uint64_t size, uint64_t value) override {
        running();
        require(size > 0 && size <= UINT32_MAX, "a fill of a strange size");
        if (reachable(destination) < size)
            return trap(destination, true);
        std::memset(at(destination), static_cast<int>(value & 0xFF), size);
        return {};
    }
    MaybeTrap store(uint64_t address, uint64_t value, unsigned size) override {
        running();
        require(size == 4 || size == 8, "a message of a strange size");
        if (reachable(address) < size)
            return trap(address, true);
        std::memcpy(at(address), &value, size);
        return {};
    }
    MaybeTrap store_own_register(uint32_t offset, uint32_t value) override { return store(offset, value, 4); }
    uint64_t message_base(unsigned base) override {
        require(base < 4, "a base that is none");
        return base * uint64_t{4096};
    }
    MaybeTrap fence(bool lower, unsigned id, uint32_t target, uint32_t decrement) override {
        running();
        require(id < 4 && target < 256 && decrement < 16, "a fence that is none");
        uint32_t &counter = m_fences.at(lower ? 4 + id : id);
        if (++counter < target)
            return trap(0, false, Trap::Kind::cancelled);
        counter -= std::min(counter, decrement);
        return {};
    }
    uint64_t timestamp() override { return 0x1122334455667788; }
    bool cancelled() override {
        running();
        m_cancelled = ++m_asked > kPatience;
        return m_cancelled;
    }
    void count_packet() override { running(); }

    void check(const MaybeTrap &result) const {
        require(!m_cancelled || (result && result->kind == Trap::Kind::cancelled), "cancelled work went on");
        require(!m_trapped || result, "an error was passed over");
        require(!result || m_cancelled || m_trapped || result->kind == Trap::Kind::undefined_opcode,
                "an error came from nowhere");
    }

private:
    void running() const { require(!m_cancelled && !m_trapped, "an access after the end"); }
    static size_t reachable(uint64_t address) {
        const uint64_t offset = address % (2 * kBytes);
        return address >> 63 != 0 || offset >= kBytes ? 0 : kBytes - offset;
    }
    unsigned char *at(uint64_t address) { return m_memory.data() + address % (2 * kBytes); }
    Trap trap(uint64_t address, bool write, Trap::Kind kind = Trap::Kind::page_fault) {
        m_trapped = true;
        return {kind, address, write};
    }

    std::array<unsigned char, kBytes> m_memory{};
    std::array<uint32_t, 8> m_fences{};
    uint64_t m_asked = 0;
    bool m_cancelled = false, m_trapped = false;
};

inline softgaudi::MaybeTrap run_on_small_bus(std::span<const unsigned char> program) {
    SmallBus bus(program);
    softgaudi::Interpreter interpreter(bus);
    const softgaudi::MaybeTrap result = interpreter.run(0, std::min(program.size(), SmallBus::kBytes));
    bus.check(result);
    return result;
}

/// A whole card. Eight-byte operands encode addresses near something mapped, so that random ones are useful: the low
/// three bits select a mapping, the bits from 8 on the position in it.
class WholeCard {
public:
    static constexpr size_t kBytes = 16384, kGuard = 4096;
    static constexpr uint64_t kApart = 1 << 20; // gap between mappings, so that none begins where another ends
    static constexpr unsigned char kUntouched = 0xA5;

    /// The only instance, never destroyed: the queues of a card run until the process exits.
    static WholeCard &instance() {
        static WholeCard *const only = new WholeCard;
        [[maybe_unused]] static const int once = std::atexit([] {
            std::error_code ignored;
            std::filesystem::remove_all(only->m_config.dir, ignored);
        });
        return *only;
    }
    WholeCard(const WholeCard &) = delete;
    WholeCard &operator=(const WholeCard &) = delete;

    /// The result of waiting: 0 or a negative errno.
    int run(std::span<const unsigned char> program, uint32_t queue, uint64_t timeout_ns) {
        const int fd = m_card.open_compute();
        require(fd >= 0, "a card that cannot be opened again");
        std::memset(m_memory, kUntouched, sizeof m_memory);
        {
            const softgaudi::CardLock lock(m_card);
            uint64_t handle = 0;
            require(m_card.map_host(reinterpret_cast<uint64_t>(m_memory + kGuard), kBytes, softgaudi::kUnpinned, 0,
                                    false, m_host) == 0 &&
                        m_card.map_host(reinterpret_cast<uint64_t>(m_commands), kBytes, softgaudi::kUnpinned,
                                        m_host + kApart, false, m_program) == 0 &&
                        m_card.allocate(1, 0, false, handle) == 0 && m_card.map_device(handle, 0, false, m_device) == 0,
                    "memory that cannot be had");
        }
        const auto size = static_cast<uint32_t>(std::min(program.size(), kBytes));
        std::copy_n(program.begin(), size, m_commands);
        place_operands(size);
        hl_cs_chunk chunk{};
        chunk.cb_handle = m_program;
        chunk.cb_size = size;
        chunk.queue_index = queue;
        chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
        softgaudi::Card::Submission submission;
        submission.chunks = {&chunk, 1};
        submission.timeout_ns = timeout_ns;
        uint64_t seq = 0;
        require(m_card.submit(submission, seq) == 0, "a submission that is refused");
        uint32_t status = HL_WAIT_CS_STATUS_BUSY;
        const int result = m_card.wait(seq, 60'000'000, status, nullptr);
        require(status != HL_WAIT_CS_STATUS_BUSY, "work that outlives its timeout");
        require(result == 0 || result == -EIO || result == -ETIMEDOUT, "an error that is none of the card's");
        ::close(fd);
        m_card.handle_close();
        for (size_t i = 0; i < kGuard; ++i)
            require(m_memory[i] == kUntouched && m_memory[kGuard + kBytes + i] == kUntouched,
                    "host memory beside a mapping was changed");
        return result;
    }

    static uint64_t operand(unsigned what, uint64_t where) { return where << 8 | what; }

private:
    WholeCard() : m_card((make_dir(), m_config), m_clock, m_pins, 0) {
        require(m_card.ready(), "a card that cannot be set up");
    }

    void make_dir() {
        char name[] = "/dev/shm/softgaudi-fuzz-XXXXXX";
        require(mkdtemp(name) != nullptr, "a directory that cannot be made");
        m_config.dir = name;
        m_config.cards = 1;
    }
    uint64_t place(uint64_t operand) const {
        const uint64_t where = operand >> 8;
        const softgaudi::Model &model = m_config.model;
        switch (operand & 7) {
        case 0:
            return m_host + where % (kBytes + 8);
        case 1:
            return m_device + where % model.dram_page;
        case 2:
            return m_device + model.dram_page - where % 64;
        case 3:
            return model.sram_base + where % model.sram_bytes;
        case 4:
            return m_program + where % (kBytes + 8);
        case 5:
            return model.cfg_base + 0x4100000 + where % 0x20000;
        case 6:
            return model.cfg_base + 0x4C8A000 + where % 0x1008;
        default:
            return operand;
        }
    }
    void place_operands(size_t size) {
        size_t at = 0;
        while (at + 8 <= size) {
            softgaudi::packet::Head head{};
            std::memcpy(&head, m_commands + at, sizeof head);
            const int tail = softgaudi::packet::tail_size(head.opcode());
            at += 8;
            for (int i = 0; i < tail && at + 8 <= size; i += 8, at += 8) {
                uint64_t operand = 0;
                std::memcpy(&operand, m_commands + at, sizeof operand);
                operand = place(operand);
                std::memcpy(m_commands + at, &operand, sizeof operand);
            }
        }
    }

    softgaudi::Config m_config;
    softgaudi::Clock m_clock{nullptr};
    softgaudi::PinnedMemory m_pins;
    softgaudi::Card m_card;
    uint64_t m_host = 0, m_program = 0, m_device = 0;
    alignas(4096) unsigned char m_memory[kGuard + kBytes + kGuard];
    alignas(4096) unsigned char m_commands[kBytes];
};

} // namespace soft::fuzz
