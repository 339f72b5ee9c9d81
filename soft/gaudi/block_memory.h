// SPDX-License-Identifier: BSD-3-Clause
// The bytes of one block. Large accesses copy through a mapping, small ones use system calls; a full tmpfs or a bad
// pointer of the host program makes the access fail. Memory that the program unmaps in the middle of a large copy is
// not caught.
#pragma once

#include "store.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace softgaudi {

/// Reports once that a write to the memory of a card failed for want of space, if `error` says so.
void report_full_tmpfs(int error);

class BlockMemory {
public:
    explicit BlockMemory(File file);
    ~BlockMemory();
    BlockMemory(const BlockMemory &) = delete;
    BlockMemory &operator=(const BlockMemory &) = delete;

    int file() const { return m_file.get(); }

    bool write(uint64_t offset, const void *from, size_t size);
    bool read(uint64_t offset, void *to, size_t size);
    /// Copies from another block (or this one). Unwritten parts of the source stay unwritten here and use no memory.
    bool copy(uint64_t offset, BlockMemory &source, uint64_t source_offset, uint64_t size);

private:
    /// Whether the chunk has pages, so that it can be accessed through the mapping; `allocate` allocates them first.
    bool prepare_chunk(uint64_t chunk, bool allocate);
    bool punch_hole(uint64_t offset, uint64_t size);
    /// Calls `access(chunk, offset, size)` for each chunk of a range.
    template <class Access>
    bool each_chunk(uint64_t offset, uint64_t size, Access access);

    File m_file;
    uint64_t m_size = 0;
    unsigned char *m_memory = nullptr; // null when mmap failed: every access is then a system call
    std::vector<std::atomic<bool>> m_present;
};

} // namespace softgaudi
