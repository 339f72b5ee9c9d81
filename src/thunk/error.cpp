// SPDX-License-Identifier: BSD-3-Clause
#include "error.h"

#include "reasons.h"

#include <fmt/format.h>

#include <cerrno>
#include <climits>
#include <cstring>

namespace gaudi::thunk {
namespace {

// No driver answers EPROTO, so it stands for a library that breaks its own rules.
constexpr int kNoErrnoLeft = EPROTO;

struct Name {
    int code;
    const char *text;
};

// A table by hand: strerrorname_np would tie the binary to glibc 2.32.
constexpr Name kNames[] = {
    {EPERM, "EPERM"},           {ENOENT, "ENOENT"},       {EINTR, "EINTR"},         {EIO, "EIO"},
    {ENXIO, "ENXIO"},           {EBADF, "EBADF"},         {EAGAIN, "EAGAIN"},       {ENOMEM, "ENOMEM"},
    {EACCES, "EACCES"},         {EFAULT, "EFAULT"},       {EBUSY, "EBUSY"},         {EEXIST, "EEXIST"},
    {ENODEV, "ENODEV"},         {EINVAL, "EINVAL"},       {ENFILE, "ENFILE"},       {EMFILE, "EMFILE"},
    {ENOTTY, "ENOTTY"},         {ENOSPC, "ENOSPC"},       {ERANGE, "ERANGE"},       {ENOSYS, "ENOSYS"},
    {ENODATA, "ENODATA"},       {EPROTO, "EPROTO"},       {EOVERFLOW, "EOVERFLOW"}, {ELIBACC, "ELIBACC"},
    {EOPNOTSUPP, "EOPNOTSUPP"}, {ETIMEDOUT, "ETIMEDOUT"}, {ECANCELED, "ECANCELED"},
};

std::string system_reason(int code) {
    char buffer[128];
    return strerror_r(code, buffer, sizeof(buffer)); // glibc's form, which returns the text
}

Error from_errno(int err, const char *call, std::string_view args, const char *returned) {
    if (err > 0)
        return make_error(err, call, args);
    return make_error(kNoErrnoLeft, call, args, fmt::format("it returned {} without an errno", returned));
}

} // namespace

std::string errno_name(int code) {
    for (const Name &name : kNames) {
        if (name.code == code)
            return name.text;
    }
    return fmt::format("errno {}", code);
}

Error make_error(int code, const char *call, std::string_view args, std::string_view reason) {
    std::string why(reason);
    if (why.empty()) {
        const char *known = known_reason(call, code);
        why = known != nullptr ? known : system_reason(code);
    }
    const std::string parenthesis = args.empty() ? std::string() : fmt::format("({})", args);
    return Error{code, call, fmt::format("{}{} failed with {}: {}", call, parenthesis, errno_name(code), why)};
}

bool is_transient(int code) {
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == EINTR || code == EAGAIN || code == EBUSY;
}

Error from_negative(int rc, const char *call, std::string_view args) {
    if (rc < 0 && rc > INT_MIN)
        return make_error(-rc, call, args);
    return make_error(kNoErrnoLeft, call, args, fmt::format("it returned {}, which is not a negative errno", rc));
}

Error from_minus_one(int err, const char *call, std::string_view args) { return from_errno(err, call, args, "-1"); }

Error from_zero(int err, const char *call, std::string_view args) { return from_errno(err, call, args, "0"); }

Error from_mixed(int rc, int err, const char *call, std::string_view args) {
    return rc == -1 ? from_minus_one(err, call, args) : from_negative(rc, call, args);
}

} // namespace gaudi::thunk
