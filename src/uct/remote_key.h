// SPDX-License-Identifier: BSD-3-Clause
// The 24 bytes that name memory to somebody else: the exported block, its length, the dma-buf's descriptor and the
// process it belongs to. They may come from the network, and nothing in them is believed before it has been checked.
#pragma once

#include "config.h"
#include "gaudi/cards.h"
#include "memory_handle.h"

#include <cstdint>

namespace gaudi::uct {

/// By its name in /proc, which costs system calls.
bool is_dmabuf(int fd);

struct RemoteKey {
    std::uint64_t address;
    std::uint64_t length;
    std::int32_t descriptor;                         // or one of these
    static constexpr std::int32_t kNotExported = -1; // the address is good all the same, within the process
    static constexpr std::int32_t kNotOurs = -2;     // registered here for UCX's sake only: copies do not reach it
    std::int32_t process;

    static RemoteKey of(const MemoryHandle &handle);
    /// Reads and checks a key. One of this process must name memory that is there.
    static Result<RemoteKey> read(const void *buffer, Cards &cards);

    /// The other process's dma-buf, checked to be one of this exporter and of the right size.
    Result<thunk::Fd> fetch() const;

    bool own() const;

    /// What UCX holds for it: the block. Other processes' memory cannot be reached by copies, and all of it is one value.
    static constexpr std::uint64_t kOthers = 1;
    std::uint64_t handle() const { return own() && descriptor != kNotOurs ? address : kOthers; }
};
static_assert(sizeof(RemoteKey) == 24);

} // namespace gaudi::uct
