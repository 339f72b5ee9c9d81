// SPDX-License-Identifier: BSD-3-Clause
#include "module_files.h"

#include <algorithm>

namespace gaudi::cli {

std::string module_suffix(const std::filesystem::path &libucs) {
    const std::string name = libucs.filename().string();
    return name.substr(std::min(name.find('.'), name.size()));
}

} // namespace gaudi::cli
