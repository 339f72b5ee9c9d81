// SPDX-License-Identifier: BSD-3-Clause
// Lists of directories, as variables hold them: with colons between them.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace gaudi::cli {

std::vector<std::filesystem::path> split_path_list(std::string_view list);

/// The directories in an environment variable; none if it is not set.
std::vector<std::filesystem::path> read_path_list(const char *variable);

/// Whether this directory is one of them, under whatever path.
bool contains_directory(const std::vector<std::filesystem::path> &all, const std::filesystem::path &directory);

} // namespace gaudi::cli
