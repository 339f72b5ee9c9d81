// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi_ucs.h"
#include "thunk/error.h"

namespace gaudi::ucx {

// What UCX is told when something failed with this errno. Never UCS_OK: an error without a number is an I/O error.
ucs_status_t status_from_errno(int code) noexcept;

// Of the exception that is being handled, for a catch block that must not throw.
thunk::Error current_exception_error(const char *operation) noexcept;

} // namespace gaudi::ucx
