// SPDX-License-Identifier: BSD-3-Clause
// An io_uring with a table of registered buffers. A registered buffer holds its pages as a driver's pin does: whatever
// the program later does with its addresses, transfers still access the pages that were registered.
#pragma once

#include "store.h"

#include <linux/io_uring.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace softgaudi {

/// munmap(2) past hooks on it. Rings are released in the child of a fork, where a lock of UCX's hook may be held for ever by
/// a thread that only the parent has.
void unmap_unhooked(void *memory, size_t size);

class Uring {
public:
    static constexpr uint32_t kSlots = 16384; // the kernel's limit, as is 1 GiB for the memory in a slot

    /// A new io_uring with an empty table; `call` names the call that failed (errno).
    static std::optional<Uring> create(io_uring_params &params, const char *&call);
    /// The io_uring of another process, or of this one, by a descriptor and what create() put into `params`.
    static std::optional<Uring> adopt(File file, const io_uring_params &params);

    ~Uring();
    Uring(Uring &&other) noexcept;
    Uring &operator=(Uring &&) = delete;

    int file() const { return m_file.get(); }

    /// Registers memory of this process in a slot, or empties it (address and size 0). Returns 0 or an errno.
    int update(uint32_t slot, uint64_t address, uint64_t size);

    /// A transfer between registered memory and a file; returns the bytes moved or -errno. One caller at a time, also
    /// among processes; `ticket` is a number that no transfer before had.
    long transfer(bool to_file, uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset,
                  uint64_t ticket);

    /// Cancels what a caller that died in transfer() may have left in the queue.
    void recover();

private:
    explicit Uring(File file) : m_file(std::move(file)) {}
    bool map(const io_uring_params &params);

    File m_file;
    unsigned char *m_rings = nullptr;
    size_t m_rings_size = 0;
    io_uring_sqe *m_entries = nullptr;
    size_t m_entries_size = 0;
    uint32_t *m_head = nullptr, *m_tail = nullptr, *m_indices = nullptr; // of the submission queue
    uint32_t *m_done_head = nullptr, *m_done_tail = nullptr;             // of the completion queue
    uint32_t m_mask = 0, m_done_mask = 0;
    io_uring_cqe *m_done = nullptr;
};

} // namespace softgaudi
