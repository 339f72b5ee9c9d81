// SPDX-License-Identifier: BSD-3-Clause
// Host memory that is pinned for cards, as the driver pins what it maps. Each process pins its own memory; copies of another
// process that shares the card access the same pages through a descriptor of the owner's io_uring.
#pragma once

#include "common/lock_ranks.h"
#include "os/mutex.h"
#include "pin.h"
#include "shared.h"
#include "uring.h"

#include <tl/expected.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace softgaudi {

/// What the processes that use one io_uring share, in a memfd.
struct PinTable {
    uint32_t tag;
    int32_t ring; // the owner's descriptor
    io_uring_params params;
    RobustMutex<soft::Rank::pin_table> mutex; // guards the rest, and transfers
    uint64_t tickets;
    std::array<bool, Uring::kSlots> used;
};

/// One io_uring with its table, of this process or of another.
class PinRing {
public:
    /// `why` says what failed when the result is null.
    static std::shared_ptr<PinRing> create(std::string &why);
    /// The ring of process `pid`; null when it cannot be had.
    static std::shared_ptr<PinRing> open(int32_t pid, const Pin &pin);
    ~PinRing();
    PinRing(const PinRing &) = delete;
    PinRing &operator=(const PinRing &) = delete;

    int32_t share() const { return m_share.get(); }
    uint32_t tag() const { return m_table->tag; }

    /// Takes `count` consecutive free slots.
    bool reserve(uint32_t count, uint32_t &first);
    /// Registers memory in reserved slots; returns 0 or an errno, and then the slots are free again.
    int pin(uint32_t first, uint64_t address, uint64_t size);
    void release(uint32_t first, uint32_t count);

    bool read(uint32_t slot, uint64_t address, void *out, size_t size);
    bool write(uint32_t slot, uint64_t address, const void *data, size_t size);
    /// Between pinned memory and a file; for long transfers, because the kernel makes them on a thread of its own. False
    /// with errno.
    bool write_to_file(uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset);
    bool read_from_file(uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset);

private:
    class Lock;
    PinRing(File share, PinTable *table, Uring ring);
    bool transfer_file(bool to_file, uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset);
    void free_slots(uint32_t first, uint32_t count);
    bool open_pipe();
    void empty_pipe();

    File m_share;
    PinTable *m_table;
    Uring m_ring;
    File m_pipe_end, m_pipe_start;
};

/// The pins of this process, and the rings of others that its copies met.
class PinnedMemory {
public:
    /// Pins whole pages. An error is an errno; `why` then says what could not be done, if that is no fault of the memory.
    tl::expected<Pin, int> pin(uint64_t address, uint64_t size, std::string &why);
    void release(int32_t pid, const Pin &pin, uint64_t size);
    /// The ring that has the pin of process `pid`; null when it cannot be had.
    std::shared_ptr<PinRing> find(int32_t pid, const Pin &pin);
    /// In the child of a fork: the rings are the parent's.
    void forked();

private:
    struct Foreign {
        int32_t pid;
        int32_t share;
        uint32_t tag;
        std::shared_ptr<PinRing> ring;
    };

    gaudi::os::Mutex m_mutex{soft::Rank::pinned_memory};
    std::vector<std::shared_ptr<PinRing>> m_own GAUDI_GUARDED_BY(m_mutex);
    std::vector<Foreign> m_foreign GAUDI_GUARDED_BY(m_mutex); // most recent last; bounded, descriptors are scarce
};

} // namespace softgaudi
