// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace gaudi::cli {

/// The text with each control character as a question mark: names of processes and files of others reach the terminal.
std::string printable(std::string_view text);
/// The same for each line of a text.
std::string printable_lines(std::string_view text);

} // namespace gaudi::cli
