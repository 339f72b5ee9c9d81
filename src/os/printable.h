// SPDX-License-Identifier: BSD-3-Clause
// Text of others, such as names of processes and files, for the terminal.
#pragma once

#include <string>
#include <string_view>

namespace gaudi::os {

/// The text with a question mark for each control character and each byte that is no UTF-8.
std::string printable(std::string_view text);
/// The same for each line of a text.
std::string printable_lines(std::string_view text);

} // namespace gaudi::os
