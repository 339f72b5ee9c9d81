// SPDX-License-Identifier: BSD-3-Clause
#include "module_files.h"

#include <algorithm>
#include <array>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFrameworks = {"libucs_", "libuct_", "libucm_", "libucx_perftest_"};

} // namespace

std::string module_suffix(const fs::path &libucs) {
    const std::string name = libucs.filename().string();
    return name.substr(std::min(name.find('.'), name.size()));
}

bool has_module(const fs::path &directory, const std::string &suffix) {
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        const bool framework = std::any_of(kFrameworks.begin(), kFrameworks.end(),
                                           [&](const char *start) { return name.starts_with(start); });
        if (framework && module_suffix(name) == suffix)
            return true;
    }
    return false;
}

} // namespace gaudi::cli
