// SPDX-License-Identifier: BSD-3-Clause
#include "path_list.h"

#include <algorithm>
#include <cstdlib>

namespace gaudi::cli {

std::vector<std::filesystem::path> split_path_list(std::string_view list) {
    std::vector<std::filesystem::path> directories;
    while (!list.empty()) {
        const std::size_t cut = list.find(':');
        directories.emplace_back(list.substr(0, cut));
        list = cut == std::string_view::npos ? "" : list.substr(cut + 1);
    }
    return directories;
}

std::vector<std::filesystem::path> read_path_list(const char *variable) {
    const char *value = std::getenv(variable);
    return split_path_list(value ? value : "");
}

bool contains_directory(const std::vector<std::filesystem::path> &all, const std::filesystem::path &directory) {
    return std::any_of(all.begin(), all.end(), [&](const std::filesystem::path &one) {
        std::error_code error;
        return std::filesystem::equivalent(one, directory, error);
    });
}

} // namespace gaudi::cli
