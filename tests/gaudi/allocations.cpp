// SPDX-License-Identifier: BSD-3-Clause
#include "allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

extern "C" const char __executable_start, etext; // defined by the linker

namespace {

std::atomic<std::uint64_t> count{0};

/// Whether the caller is linked into this program; softgaudi is loaded as a library.
bool is_in_program(const void *caller) { return caller >= &__executable_start && caller < &etext; }

} // namespace

std::uint64_t allocations() { return count.load(std::memory_order_relaxed); }

namespace {

void *allocate(std::size_t size, const void *caller) {
    if (is_in_program(caller))
        count.fetch_add(1, std::memory_order_relaxed);
    if (void *memory = std::malloc(size))
        return memory;
    throw std::bad_alloc();
}

} // namespace

void *operator new(std::size_t size) { return allocate(size, __builtin_return_address(0)); }

void *operator new[](std::size_t size) { return allocate(size, __builtin_return_address(0)); }

void operator delete[](void *memory) noexcept { std::free(memory); }

void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }

void operator delete(void *memory) noexcept { std::free(memory); }

void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
