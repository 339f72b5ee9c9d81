// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "thunk/library.h"

namespace gaudi::ucm {

/// Whether the program, or a library that it has loaded, is linked to libhl-thunk. Reads the names of their dependencies only.
bool is_linked_by_loaded_library(const thunk::Library &thunk);

} // namespace gaudi::ucm
