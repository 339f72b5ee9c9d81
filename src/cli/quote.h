// SPDX-License-Identifier: BSD-3-Clause
// Words of a command as a shell takes them.
#pragma once

#include <string>
#include <vector>

namespace gaudi::cli {

/// The words as a line for a shell, quoted where they need it.
std::string quote_words(const std::vector<std::string> &words);

} // namespace gaudi::cli
