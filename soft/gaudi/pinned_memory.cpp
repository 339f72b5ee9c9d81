// SPDX-License-Identifier: BSD-3-Clause
#include "pinned_memory.h"

#include "common/parsing.h"
#include "model.h"
#include "os/format.h"
#include "os/system_call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softgaudi {
namespace {

using gaudi::os::MutexLock;
using gaudi::os::system_call;

constexpr size_t kForeignRings = 16;
constexpr uint64_t kFilePiece = kMiB; // bytes between two turns of other queues

/// A descriptor of another process.
File take_descriptor(int process, int number) {
    return File(static_cast<int>(system_call(SYS_pidfd_getfd, process, number, 0)));
}

PinTable *map_table(int file) {
    void *memory = mmap(nullptr, sizeof(PinTable), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<PinTable *>(memory);
}

} // namespace

/// Holds the table's mutex.
class PinRing::Lock {
public:
    explicit Lock(PinRing &ring) GAUDI_NO_THREAD_SAFETY_ANALYSIS : m_ring(ring) {
        if (ring.m_table->mutex.lock())
            ring.m_ring.recover();
    }
    ~Lock() GAUDI_NO_THREAD_SAFETY_ANALYSIS { m_ring.m_table->mutex.unlock(); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

    long transfer(bool to_file, uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset) {
        return m_ring.m_ring.transfer(to_file, slot, address, size, file, offset, ++m_ring.m_table->tickets);
    }

private:
    PinRing &m_ring;
};

PinRing::PinRing(File share, PinTable *table, Uring ring)
    : m_share(std::move(share)), m_table(table), m_ring(std::move(ring)) {}

PinRing::~PinRing() { unmap_unhooked(m_table, sizeof *m_table); }

std::shared_ptr<PinRing> PinRing::create(std::string &why) {
    const auto describe = [&](const char *call) {
        const int error = errno;
        why = gaudi::os::format("{}: {}", call, soft::name_errno(error));
        errno = error;
        return nullptr;
    };
    File share(memfd_create("softgaudi-pins", MFD_CLOEXEC));
    if (!share || ftruncate(share.get(), sizeof(PinTable)) != 0)
        return describe("memfd_create");
    io_uring_params params{};
    const char *call = nullptr;
    auto ring = Uring::create(params, call);
    if (!ring)
        return describe(call);
    PinTable *table = map_table(share.get());
    if (!table)
        return describe("mmap");
    table->mutex.init();
    table->ring = ring->file();
    table->params = params;
    table->tag = static_cast<uint32_t>(monotonic_ns());
    const std::shared_ptr<PinRing> made(new PinRing(std::move(share), table, std::move(*ring)));
    return made->open_pipe() ? made : describe("pipe2");
}

std::shared_ptr<PinRing> PinRing::open(int32_t pid, const Pin &pin) {
    const File process(static_cast<int>(system_call(SYS_pidfd_open, pid, 0)));
    if (!process)
        return nullptr;
    File share = take_descriptor(process.get(), pin.share);
    struct stat info {};
    if (!share || fstat(share.get(), &info) != 0 || info.st_size != sizeof(PinTable))
        return nullptr;
    PinTable *table = map_table(share.get());
    if (!table)
        return nullptr;
    File file = table->tag == pin.tag ? take_descriptor(process.get(), table->ring) : File();
    auto ring = file ? Uring::adopt(std::move(file), table->params) : std::nullopt;
    if (!ring) {
        unmap_unhooked(table, sizeof *table);
        return nullptr;
    }
    const std::shared_ptr<PinRing> made(new PinRing(std::move(share), table, std::move(*ring)));
    return made->open_pipe() ? made : nullptr;
}

bool PinRing::open_pipe() {
    int ends[2];
    // Non-blocking, so that the kernel makes transfers with it in the call and not on a thread of its own.
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    m_pipe_end = File(ends[0]);
    m_pipe_start = File(ends[1]);
    return true;
}

/// After a failed transfer.
void PinRing::empty_pipe() {
    std::array<char, 4096> rest;
    while (system_call(SYS_read, m_pipe_end.get(), rest.data(), rest.size()) > 0) {
    }
}

bool PinRing::reserve(uint32_t count, uint32_t &first) {
    const Lock lock(*this);
    auto &used = m_table->used;
    const auto found = std::search_n(used.begin(), used.end(), static_cast<std::ptrdiff_t>(count), false);
    if (found == used.end())
        return false;
    std::fill_n(found, count, true);
    first = static_cast<uint32_t>(found - used.begin());
    return true;
}

void PinRing::free_slots(uint32_t first, uint32_t count) {
    const Lock lock(*this);
    std::fill_n(m_table->used.begin() + first, count, false);
}

int PinRing::pin(uint32_t first, uint64_t address, uint64_t size) {
    const uint32_t count = Pin::slots(size);
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t done = i * Pin::kSlotBytes;
        if (const int error = m_ring.update(first + i, address + done, std::min(size - done, Pin::kSlotBytes))) {
            while (i-- > 0)
                m_ring.update(first + i, 0, 0);
            free_slots(first, count);
            return error;
        }
    }
    return 0;
}

void PinRing::release(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
        m_ring.update(first + i, 0, 0);
    free_slots(first, count);
}

// Through a pipe: on a file of a tmpfs io_uring uses a thread of its own, which takes four times as long.
bool PinRing::read(uint32_t slot, uint64_t address, void *out, size_t size) {
    auto *to = static_cast<unsigned char *>(out);
    Lock lock(*this);
    while (size > 0) {
        const long piece = lock.transfer(true, slot, address, size, m_pipe_start.get(), 0);
        if (piece <= 0)
            return false;
        for (long done = 0; done < piece;) {
            const long got = system_call(SYS_read, m_pipe_end.get(), to + done, piece - done);
            if (got <= 0) {
                empty_pipe();
                return false;
            }
            done += got;
        }
        to += piece;
        address += static_cast<uint64_t>(piece);
        size -= static_cast<size_t>(piece);
    }
    return true;
}

bool PinRing::write(uint32_t slot, uint64_t address, const void *data, size_t size) {
    const auto *from = static_cast<const unsigned char *>(data);
    Lock lock(*this);
    while (size > 0) {
        const long piece = system_call(SYS_write, m_pipe_start.get(), from, size);
        if (piece <= 0)
            return false;
        for (long done = 0; done < piece;) {
            const long put =
                lock.transfer(false, slot, address, static_cast<size_t>(piece - done), m_pipe_end.get(), 0);
            if (put <= 0) {
                empty_pipe();
                return false;
            }
            done += put;
            address += static_cast<uint64_t>(put);
        }
        from += piece;
        size -= static_cast<size_t>(piece);
    }
    return true;
}

bool PinRing::transfer_file(bool to_file, uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset) {
    while (size > 0) {
        Lock lock(*this);
        const long done = lock.transfer(to_file, slot, address, std::min<size_t>(size, kFilePiece), file, offset);
        if (done <= 0) {
            errno = static_cast<int>(-done);
            return false;
        }
        address += static_cast<uint64_t>(done);
        offset += static_cast<uint64_t>(done);
        size -= static_cast<size_t>(done);
    }
    return true;
}

bool PinRing::write_to_file(uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset) {
    return transfer_file(true, slot, address, size, file, offset);
}

bool PinRing::read_from_file(uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset) {
    return transfer_file(false, slot, address, size, file, offset);
}

// ---- the pins of this process ---------------------------------------------------------------------------------------

tl::expected<Pin, int> PinnedMemory::pin(uint64_t address, uint64_t size, std::string &why) {
    const uint32_t count = Pin::slots(size);
    std::shared_ptr<PinRing> ring;
    uint32_t slot = 0;
    {
        const MutexLock lock(m_mutex);
        const auto free = std::ranges::find_if(m_own, [&](const auto &own) { return own->reserve(count, slot); });
        if (free != m_own.end()) {
            ring = *free;
        } else {
            ring = PinRing::create(why);
            if (!ring)
                return tl::unexpected(errno);
            m_own.push_back(ring);
            if (!ring->reserve(count, slot))
                return tl::unexpected(ENOMEM);
        }
    }
    // Pages are allocated here, because registration holds up the transfers of all queues.
    constexpr uint64_t kShort = 16 * kHostPage;
    if (size > kShort)
        madvise(reinterpret_cast<void *>(address), size, MADV_POPULATE_WRITE);
    if (const int error = ring->pin(slot, address, size)) {
        if (error != EFAULT)
            why = gaudi::os::format("io_uring_register: {}", soft::name_errno(error));
        return tl::unexpected(error);
    }
    return Pin{ring->share(), ring->tag(), slot};
}

std::shared_ptr<PinRing> PinnedMemory::find(int32_t pid, const Pin &pin) {
    if (!pin.is_pinned())
        return nullptr;
    const MutexLock lock(m_mutex);
    if (pid == getpid()) {
        const auto own = std::ranges::find_if(
            m_own, [&](const auto &ring) { return ring->share() == pin.share && ring->tag() == pin.tag; });
        return own == m_own.end() ? nullptr : *own;
    }
    const auto known = std::ranges::find_if(m_foreign, [&](const Foreign &entry) {
        return entry.pid == pid && entry.share == pin.share && entry.tag == pin.tag;
    });
    if (known != m_foreign.end())
        return known->ring;
    auto ring = PinRing::open(pid, pin);
    if (!ring)
        return nullptr;
    if (m_foreign.size() == kForeignRings)
        m_foreign.erase(m_foreign.begin());
    m_foreign.push_back({pid, pin.share, pin.tag, ring});
    return ring;
}

void PinnedMemory::release(int32_t pid, const Pin &pin, uint64_t size) {
    if (const auto ring = find(pid, pin))
        ring->release(pin.slot, Pin::slots(size));
}

void PinnedMemory::forked() GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    if (!m_mutex.try_lock())
        return; // a thread of the parent was changing the lists at the fork: the child keeps them, descriptors included
    m_own.clear();
    m_foreign.clear();
    m_mutex.unlock();
}

} // namespace softgaudi
