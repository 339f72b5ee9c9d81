// SPDX-License-Identifier: BSD-3-Clause
// The program's new and delete, in a file of their own: inlined, they would look like mismatched pairs to the compiler.
#include "allocation_news.h"

#include <cstdlib>
#include <new>

namespace {

thread_local void (*current)() = nullptr;

void tell() {
    if (current)
        current();
}

} // namespace

void gaudi::test::at_allocations(void (*news)()) { current = news; }

void *operator new(std::size_t size) {
    tell();
    if (void *memory = std::malloc(size == 0 ? 1 : size))
        return memory;
    throw std::bad_alloc();
}

void operator delete(void *memory) noexcept {
    tell();
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept {
    tell();
    std::free(memory);
}
