// SPDX-License-Identifier: BSD-3-Clause
#include "transfer.h"

#include "os/format.h"
#include "os/system_call.h"
#include "report.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace softhca {
namespace {

using gaudi::os::system_call;

constexpr size_t kPiece = 1 << 20;    // a region is touched for one piece at a time
constexpr size_t kBounce = 256 << 10; // small enough for the cache

/// Reports errno; `pid` is 0 for card memory. Unmapped memory and dead processes show in the completion only: nothing
/// may be allocated then, which could map the missing address again.
void report_failed_copy(int32_t pid) {
    const int error = errno;
    if (error == EFAULT || error == ESRCH || !mark_reported(Shortage::copy, error))
        return;
    const char *advice = error == EPERM    ? "; the HCA needs the right to trace that process: same user, same user "
                                             "namespace, kernel.yama.ptrace_scope below 2"
                         : error == ENOSPC ? "; the tmpfs that holds it is full: free space there, or enlarge it "
                                             "(Docker: --shm-size)"
                                           : "";
    report(gaudi::os::format("cannot access the memory of {}: {}; requests that need it fail{}",
                             pid == 0 ? "a card" : gaudi::os::format("process {}", pid), std::strerror(error), advice));
}

bool vm_copy(long call, int32_t pid, uint64_t address, void *local_bytes, size_t bytes) {
    const iovec local{local_bytes, bytes};
    const iovec remote{reinterpret_cast<void *>(address), bytes};
    const long moved = system_call(call, pid, &local, 1, &remote, 1, 0);
    if (moved < 0)
        report_failed_copy(pid);
    return moved == static_cast<long>(bytes);
}

/// Copies through a mapping: a dma-buf of the kernel has no read or write, and some exporters allow mmap.
bool mapped_copy(int fd, uint64_t offset, void *local_bytes, size_t bytes, bool write) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t begin = offset / page * page;
    const size_t length = bytes + (offset - begin);
    void *memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(begin));
    if (memory == MAP_FAILED) {
        if (const int error = errno; mark_reported(Shortage::map, error))
            report(
                gaudi::os::format("cannot map a dma-buf of the kernel: {}; requests that use it fail (its driver may "
                                  "not support mmap)",
                                  std::strerror(error)));
        return false;
    }
    const auto address = reinterpret_cast<uint64_t>(memory) + (offset - begin);
    const bool done =
        vm_copy(write ? SYS_process_vm_writev : SYS_process_vm_readv, getpid(), address, local_bytes, bytes);
    munmap(memory, length);
    return done;
}

bool file_copy(long call, int fd, uint64_t offset, unsigned char *local_bytes, size_t bytes) {
    while (bytes > 0) {
        const long moved = system_call(call, fd, local_bytes, bytes, offset);
        if (moved < 0)
            report_failed_copy(0);
        if (moved <= 0)
            return false;
        local_bytes += moved;
        offset += static_cast<uint64_t>(moved);
        bytes -= static_cast<size_t>(moved);
    }
    return true;
}

} // namespace

uint64_t total(const Segments &segments) {
    uint64_t bytes = 0;
    for (const Segment &segment : segments)
        bytes += segment.length;
    return bytes;
}

/// The location of a segment's bytes.
struct Transfer::Place {
    int32_t pid = 0;
    uint64_t address = 0;    // in process `pid`
    Peers::ImportPtr import; // or in this dma-buf
    uint64_t offset = 0;
    const unsigned char *mapped = nullptr; // the bytes mapped in this process, as an argument for system calls
    bool kernel = false;
    bool here = false; // `address` is in this process
};

/// Marks a region as touched by this process for as long as the object exists.
class Transfer::Touch {
public:
    explicit Touch(std::atomic<uint32_t> &slot) : m_slot(slot) {}
    ~Touch() { m_slot.store(0, std::memory_order_seq_cst); }
    Touch(const Touch &) = delete;
    Touch &operator=(const Touch &) = delete;
    void set(uint32_t key) { m_slot.store(key, std::memory_order_seq_cst); }

private:
    std::atomic<uint32_t> &m_slot;
};

bool Transfer::resolve(const Segment &segment, Place &place, Touch &touch) {
    if (segment.pointer) {
        place.pid = getpid();
        place.address = reinterpret_cast<uint64_t>(segment.pointer);
        place.here = true;
        return true;
    }
    touch.set(segment.key);
    MrEntry *region = m_fabric.state().mrs.find(segment.key);
    if (!region)
        return false;
    const uint64_t inside = segment.address - region->iova;
    if (region->kind == Kind::dmabuf) {
        place.import = m_peers.import(*region, segment.key);
        if (!place.import)
            return false;
        place.offset = region->base + inside;
        place.kernel = region->kernel;
        place.mapped = place.import->bytes() ? place.import->bytes() + inside : nullptr;
        return true;
    }
    place.pid = m_fabric.state().processes.entries[region->process].pid.load();
    place.address = region->base + inside;
    place.here = region->process == m_fabric.self();
    return true;
}

bool Transfer::read(const Place &from, void *out, size_t bytes) {
    if (!from.import)
        return vm_copy(SYS_process_vm_readv, from.pid, from.address, out, bytes);
    if (from.kernel)
        return mapped_copy(from.import->fd(), from.offset, out, bytes, false);
    return file_copy(SYS_pread64, from.import->fd(), from.offset, static_cast<unsigned char *>(out), bytes);
}

bool Transfer::write(const Place &to, const void *data, size_t bytes) {
    auto *local_bytes = static_cast<unsigned char *>(const_cast<void *>(data));
    if (!to.import)
        return vm_copy(SYS_process_vm_writev, to.pid, to.address, local_bytes, bytes);
    if (to.kernel)
        return mapped_copy(to.import->fd(), to.offset, local_bytes, bytes, true);
    return file_copy(SYS_pwrite64, to.import->fd(), to.offset, local_bytes, bytes);
}

bool Transfer::is_readable(const Place &place, size_t bytes) {
    std::array<unsigned char, 4096> page; // on the stack: an allocation could map the missing address
    for (size_t done = 0; done < bytes;) {
        const size_t part = std::min(bytes - done, page.size());
        Place at = place;
        at.address += done;
        at.offset += done;
        if (!read(at, page.data(), part))
            return false;
        done += part;
    }
    return true;
}

Transfer::Fault Transfer::copy_piece(const Segment &from, const Segment &to, size_t bytes) {
    auto &touching = m_fabric.process().touching;
    Touch from_touch(touching[0]), to_touch(touching[1]);
    Place source, target;
    if (!resolve(from, source, from_touch))
        return Fault::source;
    if (!resolve(to, target, to_touch))
        return Fault::target;
    if (source.here || source.mapped)
        return write(target, source.here ? reinterpret_cast<const void *>(source.address) : source.mapped, bytes)
                   ? Fault::none
               : is_readable(source, bytes) ? Fault::target
                                            : Fault::source;
    if (target.here)
        return read(source, reinterpret_cast<void *>(target.address), bytes) ? Fault::none
               : is_readable(source, bytes)                                  ? Fault::target
                                                                             : Fault::source;
    m_bounce.resize(kBounce);
    for (size_t done = 0; done < bytes;) {
        const size_t part = std::min(bytes - done, kBounce);
        if (!read(source, m_bounce.data(), part))
            return Fault::source;
        if (!write(target, m_bounce.data(), part))
            return Fault::target;
        source.address += part;
        source.offset += part;
        target.address += part;
        target.offset += part;
        done += part;
    }
    return Fault::none;
}

void Transfer::count(uint32_t key, uint64_t bytes, bool local, bool written) {
    MrEntry *region = m_fabric.state().mrs.find(key);
    if (!region)
        return;
    const auto add = [&](Traffic &traffic) {
        auto &counter = local ? (written ? traffic.local_written : traffic.local_read)
                              : (written ? traffic.remote_written : traffic.remote_read);
        counter.fetch_add(bytes, std::memory_order_relaxed);
    };
    add(region->traffic);
    add(m_fabric.state().devices[region->device].traffic[static_cast<size_t>(region->kind)]);
}

Transfer::Fault Transfer::move(const Segments &from, const Segments &to, bool from_here) {
    size_t i = 0, j = 0;
    uint64_t from_done = 0, to_done = 0;
    while (i < from.size()) {
        if (from_done == from[i].length) {
            ++i;
            from_done = 0;
            continue;
        }
        if (j < to.size() && to_done == to[j].length) {
            ++j;
            to_done = 0;
            continue;
        }
        if (j == to.size())
            return Fault::target;
        const auto bytes =
            static_cast<size_t>(std::min<uint64_t>({from[i].length - from_done, to[j].length - to_done, kPiece}));
        const auto at = [bytes](const Segment &segment, uint64_t done) {
            return Segment{segment.key, segment.address + done, bytes,
                           segment.pointer ? segment.pointer + done : nullptr};
        };
        if (const Fault fault = copy_piece(at(from[i], from_done), at(to[j], to_done), bytes); fault != Fault::none)
            return fault;
        if (!from[i].pointer)
            count(from[i].key, bytes, from_here, false);
        if (!to[j].pointer)
            count(to[j].key, bytes, !from_here, true);
        from_done += bytes;
        to_done += bytes;
    }
    return Fault::none;
}

} // namespace softhca
