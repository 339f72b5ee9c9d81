// SPDX-License-Identifier: BSD-3-Clause
// Packets of a Gaudi2 queue in memory: a head of two 32-bit words, then a tail that depends on the opcode.
#pragma once

#include <cstdint>

namespace softgaudi::packet {

enum class Opcode : uint32_t {
    wreg_32 = 0x01,
    wreg_bulk = 0x02,
    msg_long = 0x03,
    msg_short = 0x04,
    cp_dma = 0x05,
    msg_prot = 0x07,
    fence = 0x08,
    lin_dma = 0x09,
    nop = 0x0A,
    stop = 0x0B,
    arb_point = 0x0C,
    wait = 0x0D,
    cb_list = 0x0E,
    load_and_exe = 0x0F,
};

constexpr uint32_t bits(uint32_t word, unsigned low, unsigned count) { return (word >> low) & ((1u << count) - 1); }

struct Head {
    uint32_t word;
    uint32_t control;

    Opcode opcode() const { return static_cast<Opcode>(bits(control, 24, 5)); }
    uint32_t predicate() const { return bits(control, 0, 5); }
};

/// Bytes of a packet after its head; -1 for an undefined opcode.
constexpr int tail_size(Opcode opcode) {
    switch (opcode) {
    case Opcode::lin_dma:
    case Opcode::cb_list:
        return 16;
    case Opcode::msg_long:
    case Opcode::msg_prot:
    case Opcode::cp_dma:
    case Opcode::load_and_exe:
        return 8;
    case Opcode::wreg_32:
    case Opcode::wreg_bulk: // its first word counts its values
    case Opcode::msg_short:
    case Opcode::fence:
    case Opcode::nop:
    case Opcode::stop:
    case Opcode::arb_point:
    case Opcode::wait:
        return 0;
    }
    return -1;
}

/// Whether the packet is predicated; other opcodes use the same bits for something else.
constexpr bool has_predicate(Opcode opcode) {
    switch (opcode) {
    case Opcode::lin_dma:
    case Opcode::msg_short:
    case Opcode::nop:
    case Opcode::stop:
    case Opcode::wait:
        return false;
    default:
        return true;
    }
}

} // namespace softgaudi::packet
