// SPDX-License-Identifier: BSD-3-Clause
// Variables that hold a list of directories.
#pragma once

#include <filesystem>

namespace gaudi::cli {

/// Whether the list in the environment variable names this very directory, however it spells it.
bool lists(const char *variable, const std::filesystem::path &directory);

} // namespace gaudi::cli
