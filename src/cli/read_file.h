// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "sentence.h"

#include <string>

namespace gaudi::cli {

/// The text of a file that the user names, which may be a FIFO as of <(...): it waits for the writer. A file above 64 MiB
/// is refused.
OrSentence<std::string> read_file(const std::string &path);

} // namespace gaudi::cli
