// SPDX-License-Identifier: BSD-3-Clause
// The directory whose files the processes of one model share.
#pragma once

#include "common/parsing.h"

namespace soft {

/// The value of `variable`; else `usual` under the user's runtime directory or, where that is not in memory, /dev/shm.
std::string directory_name(const char *variable, std::string_view usual);

/// The same directory, created if missing. A directory on a disk is refused; `why` ends that message.
Expected<std::string> make_directory(const char *variable, std::string_view usual, std::string_view why);

/// Why a shared file could not be set up; EPROTO means that another version created it.
std::string describe_setup_error(int error);

} // namespace soft
