// SPDX-License-Identifier: BSD-3-Clause
#include "host_memory.h"

#include "model.h"
#include "os/system_call.h"

#include <emmintrin.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace softgaudi {
namespace {

using gaudi::os::system_call;

struct CloseFile {
    void operator()(std::FILE *file) const { std::fclose(file); }
};

/// Whether files of this device live in memory. Disks have a major number; other file systems are identified by their
/// mount. The kernel's own memory files (memfd, shared anonymous memory) have no mount.
bool is_in_memory(unsigned major, unsigned minor) {
    if (major != 0)
        return false;
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        unsigned known_major = 0, known_minor = 0;
        const size_t type = line.find(" - ");
        if (type == std::string::npos || std::sscanf(line.c_str(), "%*d %*d %u:%u", &known_major, &known_minor) != 2 ||
            known_major != major || known_minor != minor)
            continue;
        const std::string name = line.substr(type + 3, line.find(' ', type + 3) - type - 3);
        return name == "tmpfs" || name == "ramfs" || name == "devtmpfs" || name == "hugetlbfs";
    }
    return true;
}

/// A range of memory as whole pages.
struct Pages {
    Pages(uint64_t address, size_t size) : begin(address & ~(kHostPage - 1)), bytes(address + size - begin) {}
    void *pointer() const { return reinterpret_cast<void *>(begin); }

    uint64_t begin;
    size_t bytes;
};

/// Whether the range can be read or written now; touches every page.
bool populate_pages(const Pages &pages, bool write) {
    const auto populate = [write](const Pages &which) {
        return madvise(which.pointer(), which.bytes, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
    };
    static const bool known = populate({reinterpret_cast<uint64_t>(&populate), 1}); // needs Linux 5.14
    return !known || populate(pages);
}

} // namespace

bool is_mapped_here(uint64_t address, size_t size, bool write) {
    const Pages pages(address, size);
    return msync(pages.pointer(), pages.bytes, MS_ASYNC) == 0 && populate_pages({address, 1}, write) &&
           populate_pages({address + size - 1, 1}, write);
}

bool can_pin(uint64_t address, uint64_t size) {
    const std::unique_ptr<std::FILE, CloseFile> maps(std::fopen("/proc/self/maps", "re"));
    if (!maps)
        return false;
    uint64_t at = address;
    const uint64_t end = address + size;
    char line[512];
    bool whole_line = true;
    while (at < end && std::fgets(line, sizeof line, maps.get())) {
        const bool starts_here = whole_line;
        whole_line = std::strchr(line, '\n') != nullptr;
        // Skips areas before the range early, because this runs at each mapping.
        char *rest = nullptr;
        const uint64_t begin = std::strtoull(line, &rest, 16);
        const uint64_t stop = *rest == '-' ? std::strtoull(rest + 1, &rest, 16) : 0;
        if (!starts_here || stop <= at)
            continue;
        char rights[5] = "";
        unsigned major = 0, minor = 0;
        uint64_t inode = 0;
        if (std::sscanf(rest, " %4s %*x %x:%x %" SCNu64, rights, &major, &minor, &inode) != 4)
            continue;
        if (begin > at || rights[0] != 'r' || rights[1] != 'w')
            return false;
        // The kernel does not pin pages of a shared file on a disk.
        if (rights[3] == 's' && inode != 0 && !is_in_memory(major, minor))
            return false;
        at = stop;
    }
    return at >= end;
}

bool is_room_for_pages(uint64_t address, uint64_t size) {
    constexpr uint64_t kSmall = 256 * kMiB, kStep = 256 * kMiB;
    if (size < kSmall)
        return true;
    std::ifstream info("/proc/meminfo");
    uint64_t available = UINT64_MAX;
    for (std::string line; std::getline(info, line);)
        if (uint64_t kibibytes = 0; std::sscanf(line.c_str(), "MemAvailable: %" SCNu64 " kB", &kibibytes) == 1)
            available = kibibytes * kKiB;
    if (size <= available)
        return true;
    std::vector<unsigned char> resident(kStep / kHostPage);
    uint64_t missing = 0;
    for (uint64_t done = 0; done < size; done += kStep) {
        const uint64_t step = std::min(kStep, size - done);
        if (mincore(reinterpret_cast<void *>(address + done), step, resident.data()) != 0)
            return true; // registration tells what is wrong
        for (uint64_t page = 0; page < step / kHostPage; ++page)
            missing += (resident[page] & 1) == 0 ? kHostPage : 0;
        if (missing > available)
            return false;
    }
    return true;
}

// Sanitizers must not check device accesses: a card may access a whole page of which the program owns a part, and
// submission and completion, which order the accesses, are invisible to them.
#if defined(__clang__)
#define SOFTGAUDI_DEVICE_ACCESS __attribute__((no_sanitize("address", "thread", "undefined"), noinline))
#else
#define SOFTGAUDI_DEVICE_ACCESS                                                                                        \
    __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined, noinline))
#endif

SOFTGAUDI_DEVICE_ACCESS static void raw_copy(unsigned char *to, const unsigned char *from, size_t size) {
    using Word __attribute__((aligned(1), may_alias)) = uint64_t;
    size_t i = 0;
    for (; i + sizeof(Word) <= size; i += sizeof(Word)) {
        *reinterpret_cast<Word *>(to + i) = *reinterpret_cast<const Word *>(from + i);
        asm volatile("" ::: "memory"); // keeps the compiler from making this a memcpy, which sanitizers intercept
    }
    for (; i < size; ++i) {
        to[i] = from[i];
        asm volatile("" ::: "memory");
    }
}

/// Non-temporal stores: a long copy would evict everything else from the cache.
SOFTGAUDI_DEVICE_ACCESS static void stream_copy(unsigned char *to, const unsigned char *from, size_t size) {
    constexpr size_t kLine = 64;
    const size_t head = -reinterpret_cast<uintptr_t>(to) % kLine;
    raw_copy(to, from, head);
    size_t i = head;
    for (; i + kLine <= size; i += kLine) {
        const auto *in = reinterpret_cast<const __m128i_u *>(from + i);
        auto *out = reinterpret_cast<__m128i *>(to + i);
        const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
        const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
    }
    _mm_sfence();
    raw_copy(to + i, from + i, size - i);
}

void device_copy(void *to, const void *from, size_t size) {
    constexpr size_t kLong = 256 * kKiB;
    auto *out = static_cast<unsigned char *>(to);
    const auto *in = static_cast<const unsigned char *>(from);
    size < kLong ? raw_copy(out, in, size) : stream_copy(out, in, size);
}

SOFTGAUDI_DEVICE_ACCESS static void raw_store(uint64_t address, uint64_t value, size_t size) {
    if (size == 8)
        *reinterpret_cast<volatile uint64_t *>(address) = value;
    else
        *reinterpret_cast<volatile uint32_t *>(address) = static_cast<uint32_t>(value);
}

// System calls also within this process: memory may be unmapped at any moment, even after a check.
bool read_process_memory(int32_t pid, uint64_t address, void *out, size_t size) {
    const iovec local{out, size};
    const iovec remote{reinterpret_cast<void *>(address), size};
    return system_call(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) == static_cast<long>(size);
}

bool write_process_memory(int32_t pid, uint64_t address, const void *data, size_t size) {
    const iovec local{const_cast<void *>(data), size};
    const iovec remote{reinterpret_cast<void *>(address), size};
    return system_call(SYS_process_vm_writev, pid, &local, 1, &remote, 1, 0) == static_cast<long>(size);
}

bool is_process_alive(int32_t pid) {
    char byte = 0;
    const iovec local{&byte, 1}, remote{nullptr, 1};
    return system_call(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) >= 0 || errno != ESRCH;
}

bool store_process_memory(int32_t pid, uint64_t address, uint64_t value, size_t size) {
    if (pid != getpid() || address % size != 0)
        return write_process_memory(pid, address, &value, size);
    if (!is_mapped_here(address, size, true))
        return false;
    raw_store(address, value, size);
    return true;
}

} // namespace softgaudi
