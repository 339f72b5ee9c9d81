// SPDX-License-Identifier: BSD-3-Clause
// The 24 bytes that name memory to a peer: the registered range, the dma-buf of the block around it, and the process that
// has both. They may come from the network, and none of them is used before it has been checked. What a key proves and
// what it cannot: docs/keys.md.
#pragma once

#include "config.h"
#include "gaudi/memory/resolve.h"
#include "memory_handle.h"

#include <cstdint>

namespace gaudi::uct {

/// By its name in /proc, which costs system calls.
bool is_dmabuf(int fd);

struct RemoteKey {
    std::uint64_t address;
    std::uint64_t length;
    std::int32_t descriptor;                         // or one of these
    static constexpr std::int32_t kNotExported = -1; // the address is valid all the same, within the process
    static constexpr std::int32_t kUnreachable = -2; // registered for UCX's sake only: copies do not reach it
    std::int32_t process;

    static RemoteKey of(const MemoryHandle &handle);
    /// Reads a key and refuses values that no key has.
    static Result<RemoteKey> read(const void *buffer);

    /// The live mapping of this process that holds all of the range; none for host memory and for other processes' keys.
    /// UCP unpacks a key per eager message: no lock and no system call where resolve() makes none.
    Result<Resolved> find_mapping(Cards &cards) const;

    /// The other process's dma-buf, checked to be one of this exporter and large enough for the range.
    Result<thunk::Fd> fetch() const;

    bool own() const;
};
static_assert(sizeof(RemoteKey) == 24);

} // namespace gaudi::uct
