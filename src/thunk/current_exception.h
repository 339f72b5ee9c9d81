// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "error.h"

namespace gaudi::thunk {

/// The error for the exception that is being handled, for a catch block that must not throw.
Error current_exception_error(const char *operation) noexcept;

} // namespace gaudi::thunk
