// SPDX-License-Identifier: BSD-3-Clause
#include "replay_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

namespace gaudi::cli {
namespace {

constexpr std::uint64_t kHostPage = 4096;
constexpr std::uint64_t kDevicePage = 768ull << 20; // of a Gaudi2: allocations are rounded up to it

/// Bytes that the machine can give without swapping; 0 if the kernel does not tell.
std::uint64_t available_memory() {
    std::ifstream file("/proc/meminfo");
    std::uint64_t kib = 0;
    for (std::string name; file >> name >> kib; file.ignore(64, '\n'))
        if (name == "MemAvailable:")
            return kib * 1024;
    return 0;
}

} // namespace

std::unique_ptr<HostCopy> HostCopy::make(std::uint64_t pointer, std::uint64_t length, bool accessible) {
    const std::uint64_t offset = pointer % kHostPage;
    if (length > (accessible ? available_memory() / 4 : UINT64_MAX - 2 * kHostPage))
        return nullptr;
    const std::uint64_t size =
        (offset + length + kHostPage - 1) / kHostPage * kHostPage + (length == 0 ? kHostPage : 0);
    void *base = ::mmap(nullptr, size, accessible ? PROT_READ | PROT_WRITE : PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return nullptr;
    return std::unique_ptr<HostCopy>(new HostCopy(base, size, static_cast<char *>(base) + offset));
}

HostCopy::~HostCopy() { ::munmap(m_base, m_size); }

std::uint64_t ReplayContext::translate(std::uint64_t recorded) {
    const auto [start, mapping] = mappings.find_below(recorded);
    if (!mapping)
        return recorded;
    const std::uint64_t page = mapping->host ? 1 : kDevicePage;
    const std::uint64_t length = (mapping->length + page - 1) / page * page;
    return recorded == start || recorded - start < length ? mapping->address + (recorded - start) : recorded;
}

char *ReplayContext::find_host(std::uint64_t recorded, std::uint64_t length) {
    const auto [start, mapping] = mappings.find_below(recorded);
    if (!mapping || !mapping->host)
        return nullptr;
    const std::uint64_t offset = recorded - start;
    return offset <= mapping->length && length <= mapping->length - offset ? mapping->host->data() + offset : nullptr;
}

char *ReplayContext::find_host_pointer(std::uint64_t recorded) {
    char *found = nullptr;
    mappings.for_each([&](std::uint64_t, ReplayMapping &mapping) {
        const std::uint64_t offset = recorded - mapping.recorded_host;
        if (mapping.host && mapping.length >= 8 && offset <= mapping.length - 8)
            found = mapping.host->data() + offset;
    });
    return found;
}

void ReplayContext::close_exports() {
    mappings.for_each([](std::uint64_t, ReplayMapping &mapping) {
        for (const int fd : mapping.exports)
            ::close(fd);
        mapping.exports.clear();
    });
}

} // namespace gaudi::cli
