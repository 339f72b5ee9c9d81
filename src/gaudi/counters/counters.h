// SPDX-License-Identifier: BSD-3-Clause
// What a process counts of its use of cards, and the page in which `ucx_gaudi top` reads it: docs/metrics.md has the
// meaning of each counter. Counters only grow, gauges go up and down; both are never reset while the process lives.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gaudi {

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free && sizeof(Counter) == 8, "another process reads the page");

/// Adds where one thread at a time counts, under a lock: no locked instruction.
inline void count_up_exclusive(Counter &counter, std::uint64_t count) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}
/// Adds where several threads may count at once.
inline void count_up(Counter &counter, std::uint64_t count = 1) noexcept {
    counter.fetch_add(count, std::memory_order_relaxed);
}
inline std::uint64_t value_of(const Counter &counter) noexcept { return counter.load(std::memory_order_relaxed); }

/// How the bytes of a copy travel; an index of CardCounters::copies and bytes.
enum class Path : std::uint8_t {
    self_test,   // of the engine when it starts: no copy of the user's
    within_card, // by the card's DMA engines
    down,        // host memory to the card; the host memory was mapped into the card already
    down_mapped, // the same, and the copy had to map it
    up,          // the card to host memory, mapped already
    up_mapped,
    to_card,     // into another card, by the source's DMA engine
    staged_down, // host memory to the card through a bounce buffer in host memory
    staged_up,
    relayed_out, // from a card into a bounce buffer, on the way to another card
    relayed_in,  // from there into the other card: the same bytes, counted on that card
};
inline constexpr std::size_t kPaths = 11;

/// One card, as this process uses it. Counters without a remark are written under the lock of the card's engine.
struct alignas(64) CardCounters {
    // ---- identity, written before `sessions`
    std::array<char, 16> bus_id{};
    std::uint32_t module_id = 0;
    std::uint32_t reserved = 0;
    std::uint64_t memory_total_bytes = 0;
    Counter sessions{0}; // how often the process opened or adopted the card; 0: the entry is not in use

    // ---- copies that have ended without an error
    std::array<Counter, kPaths> copies{}; // a staged one counts once, whatever its number of pieces
    std::array<Counter, kPaths> bytes{};
    Counter submissions{0};
    Counter failed_transfers{0}; // copies, or pieces of staged copies, that ended with an error

    // ---- memory, under the arena's lock
    Counter memory_held_bytes{0};  // gauge: taken from the driver, deferred unmaps included
    Counter memory_used_bytes{0};  // gauge: of that, allocated
    Counter failed_allocations{0}; // by any thread
    Counter deferred_unmaps{0};
    Counter deferred_unmaps_pending{0}; // gauge

    // ---- by any thread
    Counter exports{0};        // dma-buf descriptors handed to UCX, for RDMA devices to register
    Counter exported_bytes{0}; // the memory that was asked for with them
    Counter failed_exports{0};
    Counter resets{0}; // sessions that ended because the driver reset or lost the card
};

/// All of one process. A file of this size, mapped shared; mode 0600, in a directory of mode 0700.
struct CounterPage {
    static constexpr std::array<char, 8> kMagic = {'U', 'C', 'X', 'G', 'A', 'U', 'D', 'I'};
    static constexpr std::uint32_t kLayout = 1; // a reader of another number does not understand the rest
    static constexpr std::size_t kCards = 16;   // further cards are counted in no page

    std::array<char, 8> magic{};
    std::uint32_t layout = 0;
    std::uint32_t size = 0;    // bytes
    std::uint32_t process = 0; // its id, in its own pid namespace
    std::uint32_t reserved = 0;
    std::uint64_t started_seconds = 0; // when the page was published, since 1970
    std::array<char, 32> command{};    // ends with a NUL, as all texts here
    std::array<char, 64> library{};    // the version of libhl-thunk

    // ---- by any thread
    alignas(64) Counter refused_copies{
        0}; // a wrong address, no copy path, a lost card, nothing to stage in; short ones that failed
    Counter mapped_host_bytes{0}; // gauge: host memory mapped into cards that may be unmapped for other memory

    std::array<CardCounters, kCards> cards{};
};

static_assert(sizeof(CardCounters) == 320 && sizeof(CounterPage) == 192 + 16 * 320, "a new layout needs a new number");
static_assert(offsetof(CounterPage, refused_copies) == 128 && offsetof(CardCounters, copies) == 40);

} // namespace gaudi
