// SPDX-License-Identifier: BSD-3-Clause
// The bytes of one block. Large accesses go through a mapping at the speed of memcpy, small ones through system calls;
// either way a full tmpfs or a bad pointer of the host program is a failed access. What cannot be caught is memory that
// the program takes away in the middle of a large piece.
#pragma once

#include "store.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace softgaudi {

class BlockMemory {
public:
    explicit BlockMemory(File file);
    ~BlockMemory();
    BlockMemory(const BlockMemory &) = delete;
    BlockMemory &operator=(const BlockMemory &) = delete;

    int file() const { return m_file.get(); }

    bool write(uint64_t offset, const void *from, size_t size);
    bool read(uint64_t offset, void *to, size_t size);
    /// From another block (or this one). What was never written there stays unwritten here, and costs nothing.
    bool copy(uint64_t offset, BlockMemory &source, uint64_t source_offset, uint64_t size);

private:
    /// Whether the chunk may be touched through the mapping; `make` gives it pages first.
    bool present(uint64_t chunk, bool make);
    bool punch(uint64_t offset, uint64_t size);
    /// Calls `access(chunk, offset, size)` for the parts of a range that lie in different chunks.
    template <class Access>
    bool each_chunk(uint64_t offset, uint64_t size, Access access);

    File m_file;
    uint64_t m_size = 0;
    unsigned char *m_memory = nullptr; // null when it could not be mapped: system calls do it all
    std::vector<std::atomic<bool>> m_present;
};

} // namespace softgaudi
