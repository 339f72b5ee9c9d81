// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

#include <cerrno>

namespace gaudi::ucx {

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

} // namespace gaudi::ucx
