// SPDX-License-Identifier: BSD-3-Clause
// The packets of a queue as far as recorder and replay must understand them: their sizes and the addresses in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gaudi::record {

/// One packet in a command buffer.
struct Packet {
    enum Opcode : std::uint32_t {
        wreg_bulk = 2,
        msg_long = 3,
        cp_dma = 5,
        msg_prot = 7,
        lin_dma = 9,
        nop = 10,
        cb_list = 14,
        load_and_exe = 15,
        wreg_64_long = 19
    };
    std::uint32_t word;
    std::uint32_t control;

    Opcode opcode() const { return static_cast<Opcode>(control >> 24 & 0x1F); }
    /// Of all of it; unknown packets count as the shortest.
    std::size_t size() const {
        switch (opcode()) {
        case lin_dma:
        case cb_list:
            return 24;
        case msg_long:
        case msg_prot:
        case cp_dma:
        case load_and_exe:
        case wreg_64_long:
            return 16;
        case wreg_bulk:
            return 8 + 8 * std::size_t{word & 0xFFFF};
        default:
            return 8;
        }
    }
    /// Whether the 64-bit word at offset 8 (`first`) or 16 is an address of the device.
    bool has_address(bool first) const {
        switch (opcode()) {
        case lin_dma:
            return !first || (control & 1u << 4) == 0; // a fill has its value there
        case cb_list:
            return true;
        case msg_long:
        case msg_prot:
        case cp_dma:
        case load_and_exe:
            return first;
        default:
            return false;
        }
    }
};
static_assert(sizeof(Packet) == 8);

/// Calls visit(packet, offset) for each packet that is whole. Bytes need no alignment.
template <class Visit>
void for_each_packet(const char *bytes, std::size_t length, Visit &&visit) {
    for (std::size_t at = 0; at + sizeof(Packet) <= length;) {
        Packet packet;
        std::memcpy(&packet, bytes + at, sizeof packet);
        if (packet.size() > length - at)
            return;
        visit(packet, at);
        at += packet.size();
    }
}

} // namespace gaudi::record
