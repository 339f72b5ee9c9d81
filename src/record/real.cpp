// SPDX-License-Identifier: BSD-3-Clause
#include "real.h"

#include "format.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace gaudi::record {
namespace {

struct Table {
    void *functions[kCallCount];
};

// Never freed: calls come after exit handlers have run.
std::atomic<const Table *> s_table{nullptr};

/// The path decides, not the name: the library has the recorder's name, and dlopen by that name would find the recorder.
/// RTLD_LOCAL keeps its functions from being found instead of the recorder's.
///
/// No lock is held: constructors of the library may call functions of libhl-thunk, which come back to the recorder, and
/// threads may fork meanwhile. So threads may load it at the same time, and the first table counts; the library stays.
const Table *load() noexcept {
    const char *path = ::secure_getenv(kThunkVariable);
    void *library = path && *path ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    const char *reason = library ? nullptr : path && *path ? ::dlerror() : "start the program by ucx_gaudi record";
    auto *made = new (std::nothrow) Table{};
    if (!made)
        return nullptr;
    char name[80];
    for (std::size_t i = 0; library && i < kCallCount; ++i) {
        std::snprintf(name, sizeof name, "hlthunk_%s", kCalls[i].name.data());
        made->functions[i] = ::dlsym(library, name);
    }
    const Table *first = nullptr;
    if (!s_table.compare_exchange_strong(first, made, std::memory_order_acq_rel, std::memory_order_acquire)) {
        delete made;
        return first;
    }
    if (reason)
        std::fprintf(stderr, "ucx_gaudi record: the recorder has no libhl-thunk to hand calls on to: %s\n", reason);
    return made;
}

} // namespace

void *real_function(Function function) noexcept {
    const Table *table = s_table.load(std::memory_order_acquire);
    if (!table)
        table = load();
    return table ? table->functions[static_cast<std::size_t>(function)] : nullptr;
}

} // namespace gaudi::record
