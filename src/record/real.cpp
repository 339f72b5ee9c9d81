// SPDX-License-Identifier: BSD-3-Clause
#include "real.h"

#include "format.h"
#include "os/mutex.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace gaudi::record {
namespace {

constexpr os::LockRank kLoading{40, "loading of the recorded library"}; // a fork takes it last
constinit os::Mutex s_loading{kLoading};
std::atomic<bool> s_loaded{false};
void *s_functions[kCallCount];

void before_fork() GAUDI_NO_THREAD_SAFETY_ANALYSIS { s_loading.lock(); }
void after_fork() GAUDI_NO_THREAD_SAFETY_ANALYSIS { s_loading.unlock(); }

/// The path decides, not the name: the library has the recorder's name, and dlopen by that name would find the recorder.
/// RTLD_LOCAL keeps its functions from being found instead of the recorder's.
void load() noexcept {
    const os::MutexLock lock(s_loading);
    if (s_loaded.load(std::memory_order_acquire))
        return;
    const char *path = ::secure_getenv(kThunkVariable);
    void *library = path && *path ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
        const char *reason = path && *path ? ::dlerror() : "start the program by ucx_gaudi record";
        std::fprintf(stderr, "ucx_gaudi record: the recorder has no libhl-thunk to hand calls on to: %s\n", reason);
    }
    char name[80];
    for (std::size_t i = 0; library && i < kCallCount; ++i) {
        std::snprintf(name, sizeof name, "hlthunk_%s", kCalls[i].name.data());
        s_functions[i] = ::dlsym(library, name);
    }
    ::pthread_atfork(before_fork, after_fork, after_fork);
    s_loaded.store(true, std::memory_order_release);
}

} // namespace

void *real_function(Function function) noexcept {
    if (!s_loaded.load(std::memory_order_acquire))
        load();
    return s_functions[static_cast<std::size_t>(function)];
}

} // namespace gaudi::record
