// SPDX-License-Identifier: BSD-3-Clause
// What UCX holds for registered or allocated memory.
#pragma once

#include "gaudi/host_range.h"
#include "gaudi/region.h"

#include <cstdint>
#include <memory>

namespace gaudi::uct {

struct MemoryHandle {
    enum class Kind {
        host,      // mapped into a card at the first copy there
        gaudi,     // in a mapping of device memory that we know
        allocated, // the same, and ours to free
        dmabuf,    // somebody else's, to be reached through its dma-buf where the driver imports those
        nothing,   // somebody else's; registering must succeed for UCX's sake, copies through it are refused
    };
    static constexpr std::uint32_t kMagic = 0x47415548;

    std::uint32_t magic = kMagic; // a handle comes back through UCX's C, and from programs that mix them up
    Kind kind = Kind::nothing;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::unique_ptr<HostRange> range;
    Region *region = nullptr;
    std::uint64_t generation = 0; // of the region when this was made
    // UCP's memory handle for memory whose unmapping no hook will show: its end is the last chance to have UCX let go of it.
    bool unseen = false;
    // Of memory that was attached: what its key said.
    std::int32_t process = 0;
    std::int32_t descriptor = -1;

    ~MemoryHandle() { magic = 0; }

    static MemoryHandle *from(void *memh) {
        auto *handle = static_cast<MemoryHandle *>(memh);
        return handle && handle->magic == kMagic ? handle : nullptr;
    }
    bool live() const { return region && region->generation() == generation; }
    /// Remembers the region and its present life; false if it does not hold the address any more.
    bool hold(Region &holder) {
        region = &holder;
        generation = holder.generation_with(address);
        if (generation == 0)
            region = nullptr;
        return region != nullptr;
    }
};

} // namespace gaudi::uct
