// SPDX-License-Identifier: BSD-3-Clause
#include "path_list.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace gaudi::cli {

std::vector<std::filesystem::path> read_path_list(const char *variable) {
    std::vector<std::filesystem::path> directories;
    const char *value = std::getenv(variable);
    std::string_view rest = value ? value : "";
    while (!rest.empty()) {
        const std::size_t cut = rest.find(':');
        directories.emplace_back(rest.substr(0, cut));
        rest = cut == std::string_view::npos ? "" : rest.substr(cut + 1);
    }
    return directories;
}

bool path_list_contains(const char *variable, const std::filesystem::path &directory) {
    const std::vector<std::filesystem::path> directories = read_path_list(variable);
    return std::any_of(directories.begin(), directories.end(), [&](const std::filesystem::path &one) {
        std::error_code error;
        return std::filesystem::equivalent(one, directory, error);
    });
}

} // namespace gaudi::cli
