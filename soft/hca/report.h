// SPDX-License-Identifier: BSD-3-Clause
// What the HCA says on stderr. A completion status has no room for a reason, so where the cause lies in this process (its
// limits, its rights, a full file system) and not in the request, the reason is said here.
#pragma once

#include <string_view>

namespace softhca {

/// One line on stderr.
void report(std::string_view sentence);

/// What cannot be done for the lack of something; each is a cause of its own together with an errno.
enum class Shortage { import, map, copy, event };

/// Whether this process meets this cause for the first time: it is worth one line, not one for each message.
bool is_first(Shortage shortage, int error);

} // namespace softhca
