// SPDX-License-Identifier: BSD-3-Clause
#include "tensor_handle.h"

#include "os/system_call.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>

namespace gaudi {
namespace {

constinit std::atomic<bool> s_found{false};
// A program that is linked to fixed addresses has its heap where small handles are: it must not pay for each message.
constinit std::atomic<unsigned> s_lookups{4096};

/// A handle of a tensor below 4 MiB; the limit allows for 131071 of them, and is below the heaps of other languages.
bool is_small_handle(std::uint64_t address) { return address >= 1ull << 22 && address < 1ull << 39; }

/// A handle of a larger tensor. No processor has addresses with one of the upper two bits alone.
bool is_large_handle(std::uint64_t address) {
    const std::uint64_t size_class = address >> 62, below = address << 2 >> 59;
    return (size_class == 1 || size_class == 2) && below == 0;
}

/// True only where the kernel is certain.
bool is_unmapped(std::uint64_t address) {
    constexpr std::uint64_t kPage = 4096;
    unsigned char resident = 0;
    return os::system_call(SYS_mincore, address & ~(kPage - 1), kPage, &resident) != 0 && errno == ENOMEM;
}

/// Takes one of the lookups that are left.
bool take_lookup() {
    unsigned left = s_lookups.load(std::memory_order_relaxed);
    while (left != 0 && !s_lookups.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
    }
    return left != 0;
}

} // namespace

bool is_first_tensor_handle(std::uint64_t address) {
    if (s_found.load(std::memory_order_relaxed))
        return false;
    if (!is_large_handle(address) && !(is_small_handle(address) && take_lookup() && is_unmapped(address)))
        return false;
    return !s_found.exchange(true);
}

} // namespace gaudi
