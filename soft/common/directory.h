// SPDX-License-Identifier: BSD-3-Clause
// The directory in which processes meet: what they share are files in it.
#pragma once

#include "common/words.h"

namespace soft {

/// What `variable` names, else `usual` under the user's runtime directory or, where that is not in memory, /dev/shm.
std::string directory_name(const char *variable, std::string_view usual);

/// The same, made if new, and always memory, never a disk: `why` ends the sentence that says so.
OrSentence<std::string> make_directory(const char *variable, std::string_view usual, std::string_view why);

} // namespace soft
