// SPDX-License-Identifier: BSD-3-Clause
#include "error.h"

#include "os/errno_names.h"
#include "os/format.h"
#include "reasons.h"

#include <cerrno>
#include <climits>
#include <cstring>

namespace gaudi::thunk {
namespace {

// No driver answers EPROTO, so it stands for a library that breaks its own rules.
constexpr int kNoErrnoLeft = EPROTO;

std::string system_reason(int code) {
    char buffer[128];
    return strerror_r(code, buffer, sizeof(buffer)); // glibc's form, which returns the text
}

Error from_errno(int err, const char *call, std::string_view args, const char *returned) {
    if (err > 0)
        return make_error(err, call, args);
    return make_error(kNoErrnoLeft, call, args, os::format("it returned {} without an errno", returned));
}

} // namespace

std::string errno_name(int code) {
    for (const os::ErrnoName &known : os::kErrnoNames) {
        if (known.code == code)
            return known.name;
    }
    return os::format("errno {}", code);
}

Error make_error(int code, const char *call, std::string_view args, std::string_view reason) {
    std::string why(reason);
    if (why.empty()) {
        const char *known = known_reason(call, code);
        why = known != nullptr ? known : system_reason(code);
    }
    const std::string parenthesis = args.empty() ? std::string() : os::format("({})", args);
    return Error{code, call, os::format("{}{} failed with {}: {}", call, parenthesis, errno_name(code), why)};
}

bool is_transient(int code) {
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == EINTR || code == EAGAIN || code == EBUSY;
}

Error from_negative(int rc, const char *call, std::string_view args) {
    if (rc < 0 && rc > INT_MIN)
        return make_error(-rc, call, args);
    return make_error(kNoErrnoLeft, call, args, os::format("it returned {}, which is not a negative errno", rc));
}

Error from_minus_one(int err, const char *call, std::string_view args) { return from_errno(err, call, args, "-1"); }

Error from_zero(int err, const char *call, std::string_view args) { return from_errno(err, call, args, "0"); }

Error from_mixed(int rc, int err, const char *call, std::string_view args) {
    return rc == -1 ? from_minus_one(err, call, args) : from_negative(rc, call, args);
}

} // namespace gaudi::thunk
