// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace gaudi::cli {

/// Writes all of it to stdout. False, after a message on stderr, where that fails: a full disk, a closed pipe.
bool write_stdout(const std::string &text);

} // namespace gaudi::cli
