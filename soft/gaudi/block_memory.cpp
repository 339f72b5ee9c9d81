// SPDX-License-Identifier: BSD-3-Clause
#include "block_memory.h"

#include "host_memory.h"
#include "model.h"
#include "os/system_call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace softgaudi {
namespace {

constexpr uint64_t kChunk = 2 * kMiB;
constexpr size_t kSmall = 64 * kKiB;

} // namespace

void report_full_tmpfs(int error) {
    static std::atomic<bool> reported{false};
    if (error == ENOSPC && !reported.exchange(true))
        std::fprintf(stderr, "softgaudi: cannot write the memory of a card: its tmpfs is full; free space there, or "
                             "enlarge it (Docker: --shm-size)\n");
}

// Direct system calls: submission and completion order a card's DMA, which sanitizers cannot see in the wrappers.
bool read_file(int fd, void *out, size_t size, uint64_t offset) {
    auto *to = static_cast<unsigned char *>(out);
    while (size > 0) {
        const long got = gaudi::os::system_call(SYS_pread64, fd, to, size, offset);
        if (got <= 0)
            return false;
        to += got;
        offset += static_cast<uint64_t>(got);
        size -= static_cast<size_t>(got);
    }
    return true;
}

bool write_file(int fd, const void *data, size_t size, uint64_t offset) {
    const auto *from = static_cast<const unsigned char *>(data);
    while (size > 0) {
        const long put = gaudi::os::system_call(SYS_pwrite64, fd, from, size, offset);
        if (put <= 0) {
            report_full_tmpfs(errno);
            return false;
        }
        from += put;
        offset += static_cast<uint64_t>(put);
        size -= static_cast<size_t>(put);
    }
    return true;
}

BlockMemory::BlockMemory(File file) : m_file(std::move(file)) {
    struct stat info {};
    if (fstat(m_file.get(), &info) != 0 || info.st_size <= 0)
        return;
    m_size = static_cast<uint64_t>(info.st_size);
    void *memory = mmap(nullptr, m_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m_file.get(), 0);
    if (memory == MAP_FAILED)
        return;
    madvise(memory, m_size, MADV_DONTDUMP);
    m_memory = static_cast<unsigned char *>(memory);
    m_present = std::vector<std::atomic<bool>>((m_size + kChunk - 1) / kChunk);
}

BlockMemory::~BlockMemory() {
    if (m_memory)
        munmap(m_memory, m_size);
}

bool BlockMemory::prepare_chunk(uint64_t chunk, bool allocate) {
    std::atomic<bool> &known = m_present[chunk];
    if (known.load(std::memory_order_relaxed))
        return true;
    const auto begin = static_cast<off_t>(chunk * kChunk);
    const auto end = static_cast<off_t>(std::min((chunk + 1) * kChunk, m_size));
    if (allocate) {
        if (fallocate(m_file.get(), FALLOC_FL_KEEP_SIZE, begin, end - begin) != 0) {
            report_full_tmpfs(errno);
            return false;
        }
    } else if (lseek(m_file.get(), begin, SEEK_HOLE) < end) {
        return false;
    }
    known.store(true, std::memory_order_relaxed);
    return true;
}

template <class Access>
bool BlockMemory::each_chunk(uint64_t offset, uint64_t size, Access access) {
    while (size > 0) {
        const uint64_t chunk = offset / kChunk;
        const uint64_t piece = std::min(size, (chunk + 1) * kChunk - offset);
        if (!access(chunk, offset, piece))
            return false;
        offset += piece;
        size -= piece;
    }
    return true;
}

bool BlockMemory::write(uint64_t offset, const void *from, size_t size) {
    if (!m_memory || size < kSmall)
        return write_file(m_file.get(), from, size, offset);
    const auto *data = static_cast<const unsigned char *>(from) - offset;
    return each_chunk(offset, size, [&](uint64_t chunk, uint64_t at, uint64_t piece) {
        if (!prepare_chunk(chunk, true) || !is_mapped_here(reinterpret_cast<uint64_t>(data + at), piece, false))
            return false;
        device_copy(m_memory + at, data + at, piece);
        return true;
    });
}

bool BlockMemory::read(uint64_t offset, void *to, size_t size) {
    if (!m_memory || size < kSmall)
        return read_file(m_file.get(), to, size, offset);
    auto *data = static_cast<unsigned char *>(to) - offset;
    return each_chunk(offset, size, [&](uint64_t chunk, uint64_t at, uint64_t piece) {
        // Reading a hole through the mapping would allocate it.
        if (!prepare_chunk(chunk, false))
            return read_file(m_file.get(), data + at, piece, at);
        if (!is_mapped_here(reinterpret_cast<uint64_t>(data + at), piece, true))
            return false;
        device_copy(data + at, m_memory + at, piece);
        return true;
    });
}

bool BlockMemory::punch_hole(uint64_t offset, uint64_t size) {
    if (m_memory)
        for (uint64_t chunk = offset / kChunk; chunk * kChunk < offset + size; ++chunk)
            m_present[chunk].store(false, std::memory_order_relaxed);
    return fallocate(m_file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(size)) == 0;
}

bool BlockMemory::copy(uint64_t offset, BlockMemory &source, uint64_t source_offset, uint64_t size) {
    std::vector<unsigned char> buffer;
    while (size > 0) {
        const auto at = static_cast<off_t>(source_offset);
        const off_t data = lseek(source.m_file.get(), at, SEEK_DATA);
        uint64_t piece = data < 0 ? size : std::min(static_cast<uint64_t>(data - at), size);
        if (piece > 0) {
            if (!punch_hole(offset, piece))
                return false;
        } else {
            const off_t end = lseek(source.m_file.get(), at, SEEK_HOLE);
            piece = std::min({static_cast<uint64_t>(std::max<off_t>(end - at, 1)), size, kChunk});
            buffer.resize(std::min<uint64_t>(kChunk, size));
            if (!source.read(source_offset, buffer.data(), piece) || !write(offset, buffer.data(), piece))
                return false;
        }
        offset += piece;
        source_offset += piece;
        size -= piece;
    }
    return true;
}

} // namespace softgaudi
