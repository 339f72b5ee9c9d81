// SPDX-License-Identifier: BSD-3-Clause
// Variables that hold a list of directories.
#pragma once

#include <filesystem>
#include <vector>

namespace gaudi::cli {

/// The directories that the environment variable lists; none where it is not set.
std::vector<std::filesystem::path> listed(const char *variable);

/// Whether the list in the environment variable names this very directory, however it spells it.
bool lists(const char *variable, const std::filesystem::path &directory);

} // namespace gaudi::cli
