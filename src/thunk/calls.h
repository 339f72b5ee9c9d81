// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the m_device*.cpp files: how a call into the library is made, and where its error shapes end.
#ifndef UCX_GAUDI_THUNK_CALLS_H
#define UCX_GAUDI_THUNK_CALLS_H

#include <cerrno>
#include <cstddef>

#include <fmt/format.h>

#include "error.h"

namespace gaudi::thunk {

// Structs have grown without a new soname, so everything the library fills in has room behind it.
template <class T>
struct Roomy {
    T value{};
    std::byte room[64]{};
};

// The library leaves errno as it finds it, which may be stale: every call starts from 0.
template <class Function, class... Args>
auto invoke(Function function, Args... args) {
    errno = 0;
    return function(args...);
}

// Fills one struct by a getter of the form int (int fd, T *).
template <class T>
Result<T> fetch(int (*getter)(int, T *), int fd, const char *call) {
    Roomy<T> out;
    const int rc = invoke(getter, fd, &out.value);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, call));
    return out.value;
}

} // namespace gaudi::thunk

#endif
