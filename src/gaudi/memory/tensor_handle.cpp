// SPDX-License-Identifier: BSD-3-Clause
#include "tensor_handle.h"

#include "os/system_call.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace gaudi {
namespace {

constinit std::atomic<bool> s_found{false};
// A program that is linked to fixed addresses has its heap where small handles are: it must not pay for each message.
constinit std::atomic<unsigned> s_lookups{4096};

/// Handles of tensors below 4 MiB; the limit allows for 131071 of them, and is below the heaps of other languages.
constexpr Range kSmall{1ull << 22, (1ull << 39) - (1ull << 22)};
/// Handles of larger tensors. No processor has addresses with one of the upper two bits alone.
constexpr Range kMedium{1ull << 62, 1ull << 57}, kLarge{1ull << 63, 1ull << 57};

bool is_in(Range range, std::uint64_t address) { return address - range.base < range.length; }

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

std::array<Range, 3> tensor_handle_ranges() {
    const bool has_low_heap = reinterpret_cast<std::uint64_t>(::sbrk(0)) < kSmall.base + kSmall.length;
    return {kMedium, kLarge, has_low_heap ? Range{kSmall.base, 0} : kSmall};
}

bool is_first_tensor_handle(std::uint64_t address) {
    if (s_found.load(std::memory_order_relaxed))
        return false;
    if (!is_in(kMedium, address) && !is_in(kLarge, address) &&
        !(is_in(kSmall, address) && take_lookup() && is_unmapped(address)))
        return false;
    return !s_found.exchange(true);
}

} // namespace gaudi
