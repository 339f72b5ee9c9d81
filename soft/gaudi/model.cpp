// SPDX-License-Identifier: BSD-3-Clause
#include "model.h"

#include "os/format.h"
#include "thunk/abi.h"

namespace softgaudi {

const Model &gaudi2() {
    static constexpr Model model{
        .name = "GAUDI2",
        .card_name = "HL225",
        .device_id = HL_PCI_ID_GAUDI2,
        .revision_id = 1,
        .server_type = HL_SERVER_GAUDI2_HLS2,
        .dram_bytes = 96 * kGiB,
        .dram_reserved = 768 * kMiB,
        .dram_page = 768 * kMiB,
        .page_sizes = 0,
        .dram = {0x1001001800000000, 0x1001C00600000000},
        .dram_fw = {0x1001500000000000, 0x1001700000000000},
        .sram_base = 0x1000FFFFFD000000,
        .sram_bytes = 48 * kMiB,
        .cfg_base = 0x1000007FF8000000,
        .cfg_bytes = 0x8000000,
        .host = {0xFFF0000100000000, 0xFFF0800000000000},
        .host_fw = {0xFFF077FFFFFF0000, 0xFFF0800000000000},
        .host_huge = {0xFFF0800000000000, 0xFFF1000000000000},
        .host_huge_fw = {0xFFF0F80000000000, 0xFFF1000000000000},
        .cb_pool = {0xFFF0000000000000, 0xFFF0000100000000},
        .user_queues = true,
        .edma_mask = kEdmaMask,
        .first_interrupt = 257,
        .user_interrupts = 255,
    };
    return model;
}

const Model &gaudi3() {
    static constexpr Model model{
        .name = "GAUDI3",
        .card_name = "HL-325L",
        .device_id = HL_PCI_ID_GAUDI3,
        .revision_id = 1,
        .server_type = HL_SERVER_GAUDI3_HLS3,
        .dram_bytes = 128 * kGiB,
        .dram_reserved = 1 * kGiB,
        .dram_page = 32 * kMiB,
        .page_sizes = 32 * kMiB | 64 * kMiB | 256 * kMiB | 512 * kMiB | 1 * kGiB | 2 * kGiB,
        .dram = {0x0201002000000000, 0x0202000000000000},
        .dram_fw = {0x0201500000000000, 0x0201700000000000},
        .sram_base = 0,
        .sram_bytes = 0,
        .cfg_base = 0x0300000000000000,
        .cfg_bytes = 0x10000000,
        .host = {0xFF70000100000000, 0xFF70800000000000},
        .host_fw = {0xFF7077FFFFFF0000, 0xFF70800000000000},
        .host_huge = {0xFFF0000000000000, 0xFFF0800000000000},
        .host_huge_fw = {0xFFF0780000000000, 0xFFF0800000000000},
        .cb_pool = {0xFF70000000000000, 0xFF70000100000000},
        .user_queues = false,
        .edma_mask = 0,
        .first_interrupt = 256,
        .user_interrupts = 256,
    };
    return model;
}

std::string bus_id(unsigned index) {
    static constexpr std::array<uint8_t, kMaxCards> bus = {0x19, 0x1a, 0x33, 0x34, 0x9a, 0x9b, 0xb3, 0xb4};
    return gaudi::os::format("0000:{:02x}:00.0", bus.at(index));
}

uint32_t module_id(unsigned index, unsigned cards) {
    const unsigned board = index / 4 * 4; // the cards of a board are probed from its last slot on
    return board + std::min(cards - board, 4u) - 1 - (index - board);
}

namespace {

// Queue ids of one engine type are consecutive within a core of the die; the four cores repeat the pattern.
struct Group {
    uint32_t first, count;
    Engine engine;
    uint32_t unit;
    uint64_t qman, qman_step;
};

constexpr uint64_t kDcore = 0x200000; // distance between the registers of two cores

constexpr std::array kGroups = {
    Group{0, 2, Engine::pdma, 0, 0x4C8A000, 0x10000},
    Group{8, 2, Engine::edma, 0, 0x41CA000, 0x10000},
    Group{16, 1, Engine::mme, 0, 0x40CA000, 0},
    Group{20, 7, Engine::tpc, 0, 0x400A000, 0x10000}, // core 0 has a seventh, behind the PCIe bridge
    Group{48, 2, Engine::edma, 2, 0x41CA000 + kDcore, 0x10000},
    Group{56, 1, Engine::mme, 1, 0x40CA000 + kDcore, 0},
    Group{60, 6, Engine::tpc, 7, 0x400A000 + kDcore, 0x10000},
    Group{84, 2, Engine::edma, 4, 0x41CA000 + 2 * kDcore, 0x10000},
    Group{92, 1, Engine::mme, 2, 0x40CA000 + 2 * kDcore, 0},
    Group{96, 6, Engine::tpc, 13, 0x400A000 + 2 * kDcore, 0x10000},
    Group{120, 2, Engine::edma, 6, 0x41CA000 + 3 * kDcore, 0x10000},
    Group{128, 1, Engine::mme, 3, 0x40CA000 + 3 * kDcore, 0},
    Group{132, 6, Engine::tpc, 19, 0x400A000 + 3 * kDcore, 0x10000},
    Group{156, 24, Engine::nic, 0, 0x541A000, 0x40000},
    Group{252, 2, Engine::rotator, 0, 0x4E0A000, 0x10000},
};

} // namespace

Queue queue(uint32_t id) {
    for (const Group &group : kGroups) {
        if (id < group.first || id >= group.first + group.count * kStreams)
            continue;
        const uint32_t unit = (id - group.first) / kStreams;
        return {group.engine, group.unit + unit, (id - group.first) % kStreams, group.qman + unit * group.qman_step};
    }
    return {};
}

std::optional<uint32_t> queue_manager_at(uint64_t offset) {
    for (const Group &group : kGroups) {
        for (uint32_t unit = 0; unit < group.count; ++unit)
            if (offset - (group.qman + unit * group.qman_step) < kQueueManagerBytes)
                return group.first + unit * kStreams;
    }
    return {};
}

} // namespace softgaudi
