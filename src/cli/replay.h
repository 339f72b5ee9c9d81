// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi replay: the calls of a recording made again, and their answers compared.
#pragma once

#include <string>

namespace gaudi::cli {

/// Returns 0 if all answers are those of the recording, 1 if some differ or nothing can be replayed.
int run_replay(const std::string &file, bool json);

} // namespace gaudi::cli
