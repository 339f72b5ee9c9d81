// SPDX-License-Identifier: BSD-3-Clause
#include "host_memory.h"

#include "model.h"

#include <emmintrin.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

namespace softgaudi {
namespace {

struct CloseFile {
    void operator()(std::FILE *file) const { std::fclose(file); }
};

} // namespace

bool mapped_here(uint64_t address, size_t size) {
    const uint64_t begin = address & ~(kHostPage - 1);
    const uint64_t end = (address + size + kHostPage - 1) & ~(kHostPage - 1);
    return msync(reinterpret_cast<void *>(begin), end - begin, MS_ASYNC) == 0;
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
        whole_line = false;
        for (const char *c = line; *c; ++c)
            whole_line = *c == '\n';
        uint64_t begin = 0, stop = 0;
        char rights[5] = "";
        unsigned major = 0, minor = 0;
        uint64_t inode = 0;
        if (!starts_here || std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64, &begin, &stop, rights,
                                        &major, &minor, &inode) != 6)
            continue;
        if (stop <= at)
            continue;
        if (begin > at || rights[0] != 'r' || rights[1] != 'w')
            return false;
        // Pages of a shared file on a disk refuse a long-term pin; memory files have no major number.
        if (rights[3] == 's' && inode != 0 && major != 0)
            return false;
        at = stop;
    }
    return at >= end;
}

// Sanitizers must not judge what a device reads or writes: a card may touch a whole page of which the program owns a
// part, and its accesses are ordered by submission and completion, which they cannot see.
#if defined(__clang__)
#define SOFTGAUDI_DEVICE_ACCESS __attribute__((no_sanitize("address", "thread", "undefined"), noinline))
#else
#define SOFTGAUDI_DEVICE_ACCESS __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined, noinline))
#endif

SOFTGAUDI_DEVICE_ACCESS static void raw_copy(unsigned char *to, const unsigned char *from, size_t size) {
    using Word __attribute__((aligned(1), may_alias)) = uint64_t;
    size_t i = 0;
    for (; i + sizeof(Word) <= size; i += sizeof(Word)) {
        *reinterpret_cast<Word *>(to + i) = *reinterpret_cast<const Word *>(from + i);
        asm volatile("" ::: "memory"); // or the compiler makes it a memcpy, which the sanitizers watch
    }
    for (; i < size; ++i) {
        to[i] = from[i];
        asm volatile("" ::: "memory");
    }
}

/// Stores that go straight to memory: a long copy would only push everything else out of the cache.
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

bool read_host(int32_t pid, uint64_t address, void *out, size_t size) {
    if (pid == getpid()) {
        if (!mapped_here(address, size))
            return false;
        raw_copy(static_cast<unsigned char *>(out), reinterpret_cast<const unsigned char *>(address), size);
        return true;
    }
    const iovec local{out, size};
    const iovec remote{reinterpret_cast<void *>(address), size};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

bool write_host(int32_t pid, uint64_t address, const void *data, size_t size) {
    const iovec local{const_cast<void *>(data), size};
    const iovec remote{reinterpret_cast<void *>(address), size};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

bool store_host(int32_t pid, uint64_t address, uint64_t value, size_t size) {
    if (pid != getpid() || address % size != 0)
        return write_host(pid, address, &value, size);
    if (!mapped_here(address, size))
        return false;
    raw_store(address, value, size);
    return true;
}

} // namespace softgaudi
