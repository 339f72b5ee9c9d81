// SPDX-License-Identifier: BSD-3-Clause
// Queries the memory type of host memory, for tests/instructions.py to count instructions.
//
//     detecting QUERIES
#include "uct_side.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) try {
    const long queries = argc == 2 ? std::strtol(argv[1], nullptr, 10) : 0;
    if (queries <= 0) {
        std::fprintf(stderr, "usage: detecting QUERIES\n");
        return 2;
    }
    const uct_side::Domain domain;
    const uct_side::Buffer buffer(domain, uct_side::kMiB); // with a live mapping, as in a program that uses a card
    // Where Linux puts the memory of programs; valgrind has its own place for it, far below.
    constexpr std::size_t kSize = 4096;
    const auto *host = static_cast<const char *>(mmap(reinterpret_cast<void *>(0x7e00'0000'0000), kSize, PROT_READ,
                                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    if (host == MAP_FAILED)
        throw std::runtime_error("cannot map host memory at a usual address");
    for (long i = 0; i < queries; ++i)
        if (domain.query(host + static_cast<std::size_t>(i) % kSize))
            throw std::runtime_error("host memory was taken for Gaudi memory");
    return 0;
} catch (const std::exception &failure) {
    std::fprintf(stderr, "detecting: %s\n", failure.what());
    return 1;
}
