// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace gaudi::cli {

/// Writes all of it to stdout. False, after a message on stderr, where that fails: a full disk, a closed pipe.
bool write_stdout(const std::string &text);

/// Flushes stdout at the end of a command. False, after a message on stderr, where any write to it has failed.
bool finish_stdout();

} // namespace gaudi::cli
