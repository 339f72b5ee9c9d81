// SPDX-License-Identifier: BSD-3-Clause
// Host memory that the program has mapped into cards: where the packets of its submissions can be read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gaudi::record {

/// Notes that `length` bytes at `host` are seen by the card behind `node` at `address`.
void add_host_range(std::uint64_t node, std::uint64_t address, const void *host, std::uint64_t length) noexcept;
void remove_host_range(std::uint64_t node, std::uint64_t address) noexcept;
/// A new device context has no mapping.
void remove_host_ranges(std::uint64_t node) noexcept;

/// Where the processor sees `length` bytes at the card's `address`; null if they are not all in one mapping.
const char *find_host_memory(std::uint64_t node, std::uint64_t address, std::size_t length) noexcept;

} // namespace gaudi::record
