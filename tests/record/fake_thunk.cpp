// SPDX-License-Identifier: BSD-3-Clause
// A libhl-thunk that only answers: each function returns a value of its own and sets errno to its number.
#include "record/calls.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace {

template <class R>
R answer(gaudi::record::Function function) {
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
