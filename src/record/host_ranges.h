// SPDX-License-Identifier: BSD-3-Clause
// Host memory that the program has mapped into cards: where the packets of its submissions can be read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gaudi::record {

struct HostRange {
    const char *host = nullptr;
    std::uint64_t length = 0;
};

/// Notes that the card behind `node` sees the range at `address`.
void add_host_range(std::uint64_t node, std::uint64_t address, HostRange range) noexcept;
/// Removes the range at `address` and returns it; null and 0 if there is none.
HostRange take_host_range(std::uint64_t node, std::uint64_t address) noexcept;
/// A new device context has no mapping.
void remove_host_ranges(std::uint64_t node) noexcept;

/// Where the processor sees `length` bytes at the card's `address`; null if they are not all in one mapping.
const char *find_host_memory(std::uint64_t node, std::uint64_t address, std::size_t length) noexcept;

} // namespace gaudi::record
