// SPDX-License-Identifier: BSD-3-Clause
// Variables that hold a list of directories.
#pragma once

#include <filesystem>
#include <vector>

namespace gaudi::cli {

/// The directories in an environment variable; none if it is not set.
std::vector<std::filesystem::path> read_path_list(const char *variable);

/// Whether an environment variable lists this directory, under whatever path.
bool path_list_contains(const char *variable, const std::filesystem::path &directory);

} // namespace gaudi::cli
