// SPDX-License-Identifier: BSD-3-Clause
#include "path_list.h"

#include <cstdlib>
#include <string_view>

namespace gaudi::cli {

bool lists(const char *variable, const std::filesystem::path &directory) {
    const char *value = std::getenv(variable);
    std::string_view rest = value ? value : "";
    while (!rest.empty()) {
        const std::size_t cut = rest.find(':');
        std::error_code error;
        if (std::filesystem::equivalent(rest.substr(0, cut), directory, error))
            return true;
        rest = cut == std::string_view::npos ? "" : rest.substr(cut + 1);
    }
    return false;
}

} // namespace gaudi::cli
