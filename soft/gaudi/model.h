// SPDX-License-Identifier: BSD-3-Clause
// Constants of each Gaudi generation: sizes, address map, queues.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softgaudi {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

inline constexpr uint64_t kHostPage = 4 * kKiB;
inline constexpr uint64_t kHugePage = 2 * kMiB;

inline constexpr unsigned kMaxCards = 8;

/// A half-open range of device virtual addresses.
struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;

    constexpr bool contains(uint64_t address, uint64_t length) const {
        return address >= begin && address < end && length <= end - address;
    }
    constexpr bool overlaps(uint64_t address, uint64_t length) const {
        return address < end && begin < address + length;
    }
};

struct Model {
    std::string_view name;
    std::string_view card_name;
    uint32_t device_id;
    uint32_t revision_id;
    uint16_t server_type;

    uint64_t dram_bytes;    // physical size
    uint64_t dram_reserved; // used by firmware and driver
    uint64_t dram_page;
    uint64_t page_sizes; // bit mask of page sizes a user may choose; 0 where there is no choice
    Range dram;          // virtual addresses of device memory
    Range dram_fw;       // part of it that is mapped only by hint
    uint64_t sram_base;
    uint64_t sram_bytes;
    uint64_t cfg_base;
    uint64_t cfg_bytes;

    Range host;      // host mappings in 4 KiB pages
    Range host_fw;   // part of it that is mapped only by hint
    Range host_huge; // host mappings in 2 MiB pages
    Range host_huge_fw;
    Range cb_pool; // mapped command buffers

    bool user_queues;   // users may submit commands
    uint32_t edma_mask; // engines that copy within the card
    uint16_t first_interrupt;
    uint16_t user_interrupts;

    constexpr uint64_t dram_user() const { return dram_bytes - dram_reserved; }
    constexpr uint64_t pages() const { return dram_user() / dram_page; }
};

const Model &gaudi2();
const Model &gaudi3();

/// Bus id of card `index`. Probe order and server slots differ, as on real servers.
std::string bus_id(unsigned index);
/// Module id of card `index` of a server with `cards` cards: 0 to `cards` - 1 in another order than the indexes.
uint32_t module_id(unsigned index, unsigned cards);

// ---- queues of Gaudi2 -------------------------------------------------------------------------------------------

inline constexpr uint32_t kQueues = 261;
inline constexpr uint32_t kCpuQueue = 260; // used by the driver only
inline constexpr uint32_t kStreams = 4;    // queue ids come in groups of four, one per stream of an engine

enum class Engine : uint8_t { none, pdma, edma, mme, tpc, nic, rotator };

struct Queue {
    Engine engine = Engine::none;
    uint32_t unit = 0; // index among the engines of its kind
    uint32_t stream = 0;
    uint64_t qman = 0; // offset of its queue manager's registers from cfg_base
};

/// Describes queue `id`; Engine::none for ids that users may not use.
Queue queue(uint32_t id);

/// The first queue id of the queue manager whose registers contain `offset` from cfg_base.
std::optional<uint32_t> queue_manager_at(uint64_t offset);
inline constexpr uint64_t kQueueManagerBytes = 0x1000;

inline constexpr uint32_t kEdmaUnits = 8;
inline constexpr uint32_t kEdmaMask = (1u << kEdmaUnits) - 1;

} // namespace softgaudi
