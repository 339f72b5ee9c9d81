// SPDX-License-Identifier: BSD-3-Clause
// The object behind UCX's handle (uct_mem_h) of registered or allocated memory.
#pragma once

#include "gaudi/host/host_range.h"
#include "gaudi/memory/resolve.h"

#include <cstdint>
#include <memory>

namespace gaudi::uct {

struct MemoryHandle {
    enum class Kind {
        host,      // mapped into a card at the first copy there
        gaudi,     // in a known mapping of device memory
        allocated, // the same, and allocated by the domain
        dmabuf,    // of another vendor, reached through its dma-buf where the driver imports those
        nothing,   // of another vendor: registering must succeed for UCX's sake, copies through it are refused
    };
    static constexpr std::uint32_t kMagic = 0x47415548;

    std::uint32_t magic = kMagic; // handles come back through C, from programs that may mix them up
    Kind kind = Kind::nothing;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::unique_ptr<HostRange> range;
    Resolved memory; // the mapping, for Kind::gaudi and Kind::allocated
    // The handle of probed memory, whose unmap no hook shows: its end is the last chance to drop UCX's registrations.
    bool unhooked = false;
    // Of attached memory, from its key.
    std::int32_t process = 0;
    std::int32_t descriptor = -1;

    ~MemoryHandle() { magic = 0; }

    static MemoryHandle *from(void *memh) {
        auto *handle = static_cast<MemoryHandle *>(memh);
        return handle && handle->magic == kMagic ? handle : nullptr;
    }
    bool is_live() const { return memory && memory.is_current(); }
};

} // namespace gaudi::uct
