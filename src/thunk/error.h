// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <tl/expected.hpp>

#include <string>
#include <string_view>

namespace gaudi::thunk {

struct Error {
    int code = 0;          // a positive errno
    const char *call = ""; // the function that failed; a literal, so it never dangles
    std::string text;      // one sentence for the user
};

template <class T>
using Result = tl::expected<T, Error>;

/// "EBUSY", or "errno 4095" for a number that has no name here.
std::string errno_name(int code);

/// "CALL(ARGS) failed with EBUSY: REASON". Without a reason the best known one is taken.
Error make_error(int code, const char *call, std::string_view args = {}, std::string_view reason = {});

/// Whether the same call may succeed when it is repeated: a resource was short or busy (descriptors, memory, the card),
/// or a signal came in between. Any other errno refuses the request itself.
bool is_transient(int code);

// libhl-thunk fails in three shapes, and only the caller knows which one a function has: -1 is -EPERM in the
// first and "look at errno" in the second. `err` is errno right after the call, which must have been 0 before it.

/// Of a function that returns -errno.
Error from_negative(int rc, const char *call, std::string_view args = {});
/// Of a function that returns -1 and sets errno.
Error from_minus_one(int err, const char *call, std::string_view args = {});
/// Of a function that returns 0 in place of a handle or an address, and sets errno.
Error from_zero(int err, const char *call, std::string_view args = {});
/// Of a function that mixes the first two shapes: close, get_pci_bus_id_from_fd.
Error from_mixed(int rc, int err, const char *call, std::string_view args = {});

} // namespace gaudi::thunk
