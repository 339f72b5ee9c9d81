// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "recording.h"
#include "replay_library.h"

namespace gaudi::cli {

/// Makes all calls of a recording and prints those whose answers differ. Returns the exit code: 1 if one does or the output
/// cannot be written, else 0.
int replay_calls(const ReplayLibrary &library, const Recording &recording, bool json);

} // namespace gaudi::cli
