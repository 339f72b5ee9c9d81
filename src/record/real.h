// SPDX-License-Identifier: BSD-3-Clause
// The libhl-thunk behind the recorder.
#pragma once

#include "calls.h"

namespace gaudi::record {

/// Its function; null if it has none, or cannot be loaded, which is reported on stderr once.
void *real_function(Function function) noexcept;

} // namespace gaudi::record
