// SPDX-License-Identifier: BSD-3-Clause
// How the device_*.cpp files call the library.
#pragma once

#include "error.h"
#include "os/format.h"

#include <cerrno>
#include <cstddef>

namespace gaudi::thunk {

/// A struct that the library fills, with room behind it: the structs have grown without a new soname.
template <class T>
struct Roomy {
    T value{};
    std::byte room[64]{};
};

/// Calls with errno 0: the library leaves errno as it finds it, so an older value would look like the call's own.
template <class Function, class... Args>
auto invoke(Function function, Args... args) {
    errno = 0;
    return function(args...);
}

/// Gets one struct by a getter of the form int (int fd, T *).
template <class T>
Result<T> fetch(int (*getter)(int, T *), int fd, const char *call) {
    Roomy<T> out;
    const int rc = invoke(getter, fd, &out.value);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, call));
    return out.value;
}

} // namespace gaudi::thunk
