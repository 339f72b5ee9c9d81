// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi_ucs.h"

namespace gaudi::ucx {

/// The status for an errno. Never UCS_OK: an unknown errno, or 0, is UCS_ERR_IO_ERROR.
ucs_status_t status_from_errno(int code) noexcept;

} // namespace gaudi::ucx
