// SPDX-License-Identifier: BSD-3-Clause
// Counters as plain numbers, and the sums that users see: docs/metrics.md has their meaning.
#pragma once

#include "counters.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace gaudi {

struct CardSnapshot {
    std::string bus_id;
    std::uint32_t module_id = 0;
    std::uint64_t memory_total_bytes = 0, memory_held_bytes = 0, memory_used_bytes = 0;
    std::array<std::uint64_t, kPaths> copies{}, bytes{};
    std::uint64_t submissions = 0;
    std::uint64_t exports = 0, exported_bytes = 0;
    std::uint64_t deferred_unmaps = 0, deferred_unmaps_pending = 0;
    std::uint64_t failed_transfers = 0, failed_allocations = 0, failed_exports = 0, resets = 0;

    /// Copies that ended on these paths.
    std::uint64_t copies_on(std::initializer_list<Path> paths) const;
    std::uint64_t bytes_on(std::initializer_list<Path> paths) const;
    /// Copies that the card's DMA engines made from and to where the user's data is.
    std::uint64_t direct_copies() const;
    std::uint64_t direct_bytes() const;
    /// Copies through bounce buffers in host memory; between two cards the bytes count once, on the source.
    std::uint64_t staged_copies() const;
    std::uint64_t staged_bytes() const;
    /// Direct copies whose host memory was mapped into the card already, and those that had to map it.
    std::uint64_t mapping_hits() const;
    std::uint64_t mapping_misses() const;
    std::uint64_t errors() const;
};

struct ProcessSnapshot {
    std::string page; // the name of its file: ids of processes are those of their pid namespace, and may occur twice
    std::uint32_t pid = 0;
    std::string command;
    std::string library; // the version of libhl-thunk
    bool software = false;
    std::uint64_t started_seconds = 0; // since 1970
    std::uint64_t refused_copies = 0, mapped_host_bytes = 0;
    std::vector<CardSnapshot> cards; // that the process has opened or adopted

    /// The same counters, summed over the cards.
    CardSnapshot total() const;
    std::uint64_t errors() const { return total().errors() + refused_copies; }
};

CardSnapshot take_snapshot(const CardCounters &card);
/// Takes a page that is complete; the texts of the snapshot have no control characters.
ProcessSnapshot take_snapshot(const CounterPage &page);

} // namespace gaudi
