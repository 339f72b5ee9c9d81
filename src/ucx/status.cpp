// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

#include "os/format.h"

#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

namespace gaudi::ucx {
namespace {

int code_of(const std::system_error &error) {
    const std::error_code &code = error.code();
    const bool is_errno = code.category() == std::generic_category() || code.category() == std::system_category();
    return is_errno ? code.value() : EIO;
}

/// Names the operation, unless there is no memory left even for that sentence.
thunk::Error describe(int code, const char *operation, const char *why) noexcept {
    try {
        return {code, operation, os::format("{} failed: {}", operation, why)};
    } catch (...) {
        return {code, operation, "out of memory"}; // short enough for std::string to allocate nothing
    }
}

} // namespace

ucs_status_t status_from_errno(int code) noexcept {
    switch (code) {
    case ENOMEM:
        return UCS_ERR_NO_MEMORY;
    case EINVAL:
        return UCS_ERR_INVALID_PARAM;
    case EFAULT:
        return UCS_ERR_INVALID_ADDR;
    case EAGAIN:
        return UCS_ERR_NO_RESOURCE;
    case EBUSY:
        return UCS_ERR_BUSY;
    case ENODEV:
    case ENXIO:
    case ENOENT:
    case ELIBACC: // no libhl-thunk, so no card
        return UCS_ERR_NO_DEVICE;
    case EEXIST:
        return UCS_ERR_ALREADY_EXISTS;
    case ENODATA:
        return UCS_ERR_NO_ELEM;
    case ERANGE:
    case EOVERFLOW:
        return UCS_ERR_OUT_OF_RANGE;
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
        return UCS_ERR_EXCEEDS_LIMIT;
    case ETIMEDOUT:
        return UCS_ERR_TIMED_OUT;
    case ECANCELED:
        return UCS_ERR_CANCELED;
    case EPERM:
    case EACCES:
        return UCS_ERR_REJECTED;
    case ENOSYS:
    case ENOTTY:
    case EOPNOTSUPP:
        return UCS_ERR_UNSUPPORTED;
    case ECONNRESET:
        return UCS_ERR_CONNECTION_RESET;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

thunk::Error current_exception_error(const char *operation) noexcept {
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return describe(ENOMEM, operation, "out of memory");
    } catch (const std::system_error &error) {
        return describe(code_of(error), operation, error.what());
    } catch (const std::exception &error) {
        return describe(EIO, operation, error.what());
    } catch (...) {
        return describe(EIO, operation, "unknown error");
    }
}

} // namespace gaudi::ucx
