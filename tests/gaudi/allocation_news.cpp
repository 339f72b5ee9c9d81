// SPDX-License-Identifier: BSD-3-Clause
// The program's new and delete, in a file of their own: inlined, they would look like mismatched pairs to the compiler.
#include "allocation_news.h"

#include <cstdlib>
#include <new>

namespace {

thread_local void (*s_callback)() = nullptr;

void notify() {
    if (s_callback)
        s_callback();
}

} // namespace

void gaudi::test::set_allocation_callback(void (*callback)()) { s_callback = callback; }

void *operator new(std::size_t size) {
    notify();
    if (void *memory = std::malloc(size == 0 ? 1 : size))
        return memory;
    throw std::bad_alloc();
}

void operator delete(void *memory) noexcept {
    notify();
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept {
    notify();
    std::free(memory);
}
