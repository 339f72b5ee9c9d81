// SPDX-License-Identifier: BSD-3-Clause
// A libhl-thunk that only answers: each function returns a value of its own and sets errno to its number. With
// FAKE_CALLS_BACK its constructor calls a function of libhl-thunk, as a library does that the real one may be linked to.
#include "record/calls.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <type_traits>

/// For the program: called inside of hlthunk_memory_unmap.
extern "C" __attribute__((visibility("default"))) void (*fake_on_unmap)();
void (*fake_on_unmap)() = nullptr;

namespace {

__attribute__((constructor)) void call_libhl_thunk() {
    if (!std::getenv("FAKE_CALLS_BACK"))
        return;
    auto *count =
        reinterpret_cast<decltype(&hlthunk_get_device_count)>(::dlsym(RTLD_DEFAULT, "hlthunk_get_device_count"));
    count(HLTHUNK_DEVICE_DONT_CARE);
}

template <class R>
R answer(gaudi::record::Function function) {
    if (function == gaudi::record::Function::memory_unmap && fake_on_unmap)
        fake_on_unmap();
    const auto number = static_cast<int>(function);
    errno = number + 1;
    if constexpr (std::is_same_v<R, char *>) {
        return ::strdup("fake version");
    } else if constexpr (std::is_pointer_v<R>) {
        return std::calloc(1, 8);
    } else if constexpr (std::is_same_v<R, bool>) {
        return true;
    } else if constexpr (!std::is_void_v<R>) {
        return static_cast<R>(number + 1000);
    }
}

} // namespace

#define FAKE_DECLARE(name, result, parameters, ...) extern "C" result hlthunk_##name parameters;
GAUDI_RECORD_NEWER_CALLS(FAKE_DECLARE)

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FAKE_DEFINE(name, result, parameters, ...)                                                                     \
    extern "C" __attribute__((visibility("default"))) result hlthunk_##name parameters {                               \
        return answer<result>(gaudi::record::Function::name);                                                          \
    }
GAUDI_RECORD_CALLS(FAKE_DEFINE)
