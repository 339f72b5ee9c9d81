// SPDX-License-Identifier: BSD-3-Clause
// Executes command buffers packet by packet. Memory, registers and fences are behind the Bus, so that the interpreter
// can be tested and fuzzed alone.
#pragma once

#include "packets.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace softgaudi {

/// The reason why a stream of packets stopped.
struct Trap {
    enum class Kind { page_fault, illegal_register, undefined_opcode, cancelled } kind;
    uint64_t address = 0;
    bool write = false;
};

using MaybeTrap = std::optional<Trap>;

struct Transfer {
    uint64_t source;
    uint64_t destination;
    uint64_t size;
    unsigned swap; // size of the elements whose bytes are reversed; 1 for none
};

class Bus {
public:
    virtual ~Bus() = default;

    /// Reads up to the first unmapped address; 0 bytes is a page fault.
    virtual size_t fetch(uint64_t address, std::span<unsigned char> out) = 0;
    virtual MaybeTrap move(const Transfer &transfer) = 0;
    virtual MaybeTrap fill(uint64_t destination, uint64_t size, uint64_t value) = 0;
    /// Stores a message of 4 or 8 bytes to memory or to a register.
    virtual MaybeTrap store(uint64_t address, uint64_t value, unsigned size) = 0;
    /// Stores to a register of the stream's own queue manager.
    virtual MaybeTrap store_own_register(uint32_t offset, uint32_t value) = 0;
    /// The base address that short messages with this index are relative to.
    virtual uint64_t message_base(unsigned base) = 0;
    /// Waits until the fence of the upper or lower command processor has reached `target`, then subtracts `decrement`.
    virtual MaybeTrap fence(bool lower, unsigned id, uint32_t target, uint32_t decrement) = 0;
    virtual uint64_t timestamp() = 0;
    virtual bool cancelled() = 0;
    virtual void count_packet() = 0;
};

class Interpreter {
public:
    /// `asynchronous`: the upper processor goes on with its packets before the lower one runs a nested command buffer, up to the
    /// next fence, nested buffer or end.
    explicit Interpreter(Bus &bus, bool asynchronous = false) : m_bus(bus), m_asynchronous(asynchronous) {}

    /// Runs a command buffer up to its end or the first trap.
    MaybeTrap run(uint64_t address, uint64_t size);

private:
    /// The state of one of a stream's two command processors.
    struct Processor {
        uint32_t predicates = ~0u; // bit 0 is always set
        std::array<uint32_t, 4> scalars{};
    };
    class Reader;

    MaybeTrap run_buffer(uint64_t address, uint64_t size, bool lower, unsigned depth);
    MaybeTrap execute(const packet::Head &head, std::span<const uint64_t> tail, uint64_t at, bool lower,
                      unsigned depth);
    MaybeTrap run_dma(const packet::Head &head, uint64_t source, uint64_t destination, uint64_t at);
    MaybeTrap run_list(std::span<const uint64_t> tail, uint64_t at, bool lower, unsigned depth);
    MaybeTrap load_and_execute(const packet::Head &head, uint64_t source, uint64_t at, bool lower, unsigned depth);
    MaybeTrap read(uint64_t address, std::span<unsigned char> out);
    MaybeTrap run_nested(uint64_t address, uint64_t size, bool lower, unsigned depth);
    /// Runs the nested command buffer that waits, if any.
    MaybeTrap catch_up();

    Bus &m_bus;
    std::array<Processor, 2> m_processors; // upper, lower
    bool m_stopped = false;
    const bool m_asynchronous;
    struct Nested {
        uint64_t address, size;
        unsigned depth;
    };
    std::optional<Nested> m_waiting; // for the lower processor
};

} // namespace softgaudi
