// SPDX-License-Identifier: BSD-3-Clause
#include "interpreter.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace softgaudi {

using packet::bits;
using packet::Head;
using packet::Opcode;

namespace {

constexpr unsigned kMaxDepth = 64; // nesting of command buffers

Trap undefined(uint64_t at) { return {Trap::Kind::undefined_opcode, at, false}; }

} // namespace

/// Reads a command buffer sequentially and fetches ahead within mapped memory.
class Interpreter::Reader {
public:
    Reader(Bus &bus, uint64_t address, uint64_t size) : m_bus(bus), m_address(address), m_remaining(size) {}

    uint64_t address() const { return m_address; }
    uint64_t remaining() const { return m_remaining; }

    MaybeTrap take(void *out, size_t size) {
        auto *to = static_cast<unsigned char *>(out);
        while (size > 0) {
            if (m_begin == m_end) {
                const uint64_t wanted = std::min<uint64_t>(m_remaining, m_bytes.size());
                m_begin = 0;
                m_end = m_bus.fetch(m_address, std::span(m_bytes).first(wanted));
                if (m_end == 0)
                    return Trap{Trap::Kind::page_fault, m_address, false};
            }
            const size_t piece = std::min(size, m_end - m_begin);
            std::memcpy(to, m_bytes.data() + m_begin, piece);
            m_begin += piece;
            m_address += piece;
            m_remaining -= piece;
            to += piece;
            size -= piece;
        }
        return {};
    }

private:
    Bus &m_bus;
    uint64_t m_address;
    uint64_t m_remaining;
    size_t m_begin = 0, m_end = 0;
    std::array<unsigned char, 4096> m_bytes;
};

MaybeTrap Interpreter::run(uint64_t address, uint64_t size) {
    m_stopped = false;
    if (auto trap = run_buffer(address, size, false, 0))
        return trap;
    m_stopped = false;
    return catch_up();
}

MaybeTrap Interpreter::run_nested(uint64_t address, uint64_t size, bool lower, unsigned depth) {
    if (!m_asynchronous || !lower)
        return run_buffer(address, size, lower, depth);
    if (auto trap = catch_up()) // one after another
        return trap;
    m_waiting = Nested{address, size, depth};
    return {};
}

MaybeTrap Interpreter::catch_up() {
    const auto next = std::exchange(m_waiting, {});
    return next ? run_buffer(next->address, next->size, true, next->depth) : MaybeTrap();
}

MaybeTrap Interpreter::run_buffer(uint64_t address, uint64_t size, bool lower, unsigned depth) {
    Reader reader(m_bus, address, size);
    while (reader.remaining() > 0 && !m_stopped) {
        if (m_bus.cancelled())
            return Trap{Trap::Kind::cancelled};
        const uint64_t at = reader.address();
        if (reader.remaining() < sizeof(Head))
            return undefined(at);
        Head head;
        if (auto trap = reader.take(&head, sizeof head))
            return trap;
        const int tail = packet::tail_size(head.opcode());
        if (tail < 0 || reader.remaining() < static_cast<uint64_t>(tail))
            return undefined(at);
        std::array<uint64_t, 2> operands{};
        if (auto trap = reader.take(operands.data(), static_cast<size_t>(tail)))
            return trap;
        m_bus.count_packet();

        const bool runs =
            !packet::has_predicate(head.opcode()) || (m_processors.at(lower).predicates >> head.predicate() & 1) != 0;
        if (head.opcode() == Opcode::wreg_bulk) {
            const uint32_t count = bits(head.word, 0, 16);
            if (reader.remaining() < uint64_t{count} * sizeof(uint64_t))
                return undefined(at);
            uint32_t offset = bits(head.control, 8, 16);
            for (uint32_t i = 0; i < count; ++i, offset += 8) {
                uint64_t value = 0;
                if (auto trap = reader.take(&value, sizeof value))
                    return trap;
                if (!runs)
                    continue;
                if (auto trap = m_bus.store_own_register(offset, static_cast<uint32_t>(value)))
                    return trap;
                if (auto trap = m_bus.store_own_register(offset + 4, static_cast<uint32_t>(value >> 32)))
                    return trap;
            }
            continue;
        }
        if (!runs)
            continue;
        if (auto trap = execute(head, operands, at, lower, depth))
            return trap;
    }
    return {};
}

MaybeTrap Interpreter::execute(const Head &head, std::span<const uint64_t> tail, uint64_t at, bool lower,
                               unsigned depth) {
    switch (head.opcode()) {
    case Opcode::lin_dma:
        return run_dma(head, tail[0], tail[1], at);
    case Opcode::msg_long:
    case Opcode::msg_prot:
        if (bits(head.control, 20, 2) == 1)
            return m_bus.store(tail[0], m_bus.timestamp(), 8);
        return m_bus.store(tail[0], head.word, 4);
    case Opcode::msg_short:
        return m_bus.store(m_bus.message_base(bits(head.control, 22, 2)) + bits(head.control, 0, 16), head.word, 4);
    case Opcode::fence:
        if (!lower)
            if (auto trap = catch_up()) // it may be what the fence waits for
                return trap;
        return m_bus.fence(lower, bits(head.word, 30, 2), bits(head.word, 16, 8), bits(head.word, 0, 4));
    case Opcode::wreg_32:
        return m_bus.store_own_register(bits(head.control, 8, 16), head.word);
    case Opcode::cp_dma:
        // The lower processor runs what the upper one passes to it and cannot nest further.
        if (lower || depth >= kMaxDepth)
            return undefined(at);
        return run_nested(tail[0], head.word, bits(head.control, 5, 1) == 0, depth + 1);
    case Opcode::cb_list:
        return run_list(tail, at, lower, depth);
    case Opcode::load_and_exe:
        return load_and_execute(head, tail[0], at, lower, depth);
    case Opcode::stop:
        m_stopped = true;
        return {};
    case Opcode::nop:
    case Opcode::arb_point: // streams run one at a time: no arbitration
    case Opcode::wait:
        return {};
    case Opcode::wreg_bulk:
        break; // handled where its values are read
    }
    return undefined(at);
}

MaybeTrap Interpreter::run_dma(const Head &head, uint64_t source, uint64_t destination, uint64_t at) {
    // Conversions (bf16, fp16) and engine-added offsets are not modelled, and must not execute as plain copies.
    if (bits(head.control, 6, 2) != 0 || bits(head.control, 9, 1) != 0)
        return undefined(at);
    if (head.word == 0)
        return {};
    if (bits(head.control, 4, 1) != 0)
        return m_bus.fill(destination, head.word, source);
    return m_bus.move({source, destination, head.word, 1u << bits(head.control, 1, 2)});
}

MaybeTrap Interpreter::read(uint64_t address, std::span<unsigned char> out) {
    size_t done = 0;
    while (done < out.size()) {
        const size_t got = m_bus.fetch(address + done, out.subspan(done));
        if (got == 0)
            return Trap{Trap::Kind::page_fault, address + done, false};
        done += got;
    }
    return {};
}

/// Runs one entry of a table of CP_DMA packets, selected by an index in memory.
MaybeTrap Interpreter::run_list(std::span<const uint64_t> tail, uint64_t at, bool lower, unsigned depth) {
    if (lower || depth >= kMaxDepth)
        return undefined(at);
    std::array<unsigned char, 16> bytes;
    uint32_t index = 0;
    if (auto trap = read(tail[0], std::span(bytes).first(4)))
        return trap;
    std::memcpy(&index, bytes.data(), sizeof index);
    const uint64_t entry = tail[1] + uint64_t{index} * bytes.size();
    if (auto trap = read(entry, bytes))
        return trap;
    Head head;
    uint64_t source = 0;
    std::memcpy(&head, bytes.data(), sizeof head);
    std::memcpy(&source, bytes.data() + sizeof head, sizeof source);
    if (head.opcode() != Opcode::cp_dma)
        return undefined(entry);
    return run_nested(source, head.word, bits(head.control, 5, 1) == 0, depth + 1);
}

/// Loads predicates or scalar registers from memory, or executes a packet held in the scalar registers.
MaybeTrap Interpreter::load_and_execute(const Head &head, uint64_t source, uint64_t at, bool lower, unsigned depth) {
    Processor &processor = m_processors.at(lower);
    const bool scalars = bits(head.word, 0, 1) != 0;
    const bool consecutive = bits(head.word, 1, 1) != 0;
    if (bits(head.word, 8, 1) != 0) {
        if (scalars) {
            std::array<unsigned char, 16> bytes;
            if (auto trap = read(source, bytes))
                return trap;
            std::memcpy(processor.scalars.data(), bytes.data(), bytes.size());
        } else {
            std::array<unsigned char, 128> bytes;
            if (auto trap = read(source, std::span(bytes).first(consecutive ? 4 : 128)))
                return trap;
            uint32_t predicates = 0;
            if (consecutive) {
                std::memcpy(&predicates, bytes.data(), sizeof predicates);
            } else {
                for (unsigned i = 0; i < 32; ++i)
                    predicates |= (bytes.at(i * 4) & 1u) << i;
            }
            processor.predicates = predicates | 1;
        }
    }
    if (bits(head.word, 9, 1) == 0)
        return {};
    const unsigned first = bits(head.word, 10, 1) != 0 ? 2 : 0;
    const Head loaded{processor.scalars.at(first), processor.scalars.at(first + 1)};
    const int tail = packet::tail_size(loaded.opcode());
    if (tail < 0 || tail > (first == 0 ? 8 : 0) || loaded.opcode() == Opcode::load_and_exe ||
        loaded.opcode() == Opcode::wreg_bulk)
        return undefined(at);
    const std::array<uint64_t, 2> operands = {processor.scalars[2] | uint64_t{processor.scalars[3]} << 32, 0};
    return execute(loaded, operands, at, lower, depth);
}

} // namespace softgaudi
