// SPDX-License-Identifier: BSD-3-Clause
// Messages of the HCA on stderr. A completion status has no room for a reason, so a failure whose cause is this process
// (limits, rights, a full file system) and not the request is reported here.
#pragma once

#include <string_view>

namespace softhca {

/// Prints one line.
void report(std::string_view sentence);

/// An operation that failed; together with an errno it is one cause.
enum class Shortage { import, map, copy, event };

/// Marks a cause as reported; true the first time, so that it is printed once and not for each message.
bool mark_reported(Shortage shortage, int error);

} // namespace softhca
