// SPDX-License-Identifier: BSD-3-Clause
// Device memory: one sparse file per allocation ("block"), and its exports.
#pragma once

#include "block_memory.h"
#include "common/lock_ranks.h"
#include "os/mutex.h"
#include "store.h"

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace softgaudi {

class Blocks {
public:
    Blocks(std::string dir, bool posted) : m_dir(std::move(dir)), m_posted(posted) {}

    bool create(uint64_t context, uint32_t handle, uint64_t size);
    void remove(uint64_t context, uint32_t handle);
    /// Removes the blocks that no export holds; true when some are still held.
    bool remove_unexported();
    bool has_exports() const { return scan(false); }

    /// A new descriptor on the block. Its name carries the exported range, and it locks byte `mapping` of the block.
    int export_block(uint64_t context, uint32_t handle, uint32_t mapping, uint64_t offset, uint64_t size);
    bool is_exported(uint64_t context, uint32_t handle, uint32_t mapping);

    /// The bytes of a block as the card's engines see them; null when the block is gone.
    struct View {
        std::unique_ptr<BlockMemory> engine; // read and written by the engines
        std::unique_ptr<BlockMemory> outer;  // read and written by importers, where that differs (quirk "posted")
    };
    std::shared_ptr<const View> view(uint64_t context, uint32_t handle);

    /// Held by engines while they write a block that has two sides, so that a flush does not undo them.
    gaudi::os::Mutex &sides() GAUDI_RETURNS_LOCK(m_sides) { return m_sides; }

    /// Makes the writes of importers visible to the engines.
    void flush(uint64_t context, const std::vector<uint32_t> &handles);

private:
    bool scan(bool remove_free) const;
    std::string path(uint64_t context, uint32_t handle) const;
    std::string view_path(uint64_t context, uint32_t handle) const;

    struct Cached {
        uint64_t context;
        uint32_t handle;
        std::shared_ptr<const View> view;
    };

    const std::string m_dir;
    const bool m_posted;
    gaudi::os::Mutex m_sides{soft::Rank::sides};
    gaudi::os::Mutex m_mutex{soft::Rank::views};
    std::list<Cached> m_cache GAUDI_GUARDED_BY(m_mutex); // most recently used first; bounded, descriptors are scarce
};

} // namespace softgaudi
