// SPDX-License-Identifier: BSD-3-Clause
#include "links.h"

#include "os/format.h"

#include <algorithm>
#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// "libuct.so.0" of "libuct-94d3c196.so.0.0.0", "libuct_ib.so.0" of "libuct_ib.so.0.0.0"; empty for other files.
std::string plain_name(const std::string &file) {
    const std::size_t end = file.find(".so.");
    if (end == std::string::npos || !file.starts_with("libuc"))
        return {};
    return os::format("{}.so.0", std::string_view(file).substr(0, std::min(end, file.find('-'))));
}

void link_all(const fs::path &from, const fs::path &to) {
    fs::create_directories(to);
    for (const auto &entry : fs::directory_iterator(from)) {
        const std::string name = plain_name(entry.path().filename().string());
        if (!name.empty())
            fs::create_symlink(entry.path(), to / name);
    }
}

} // namespace

OrSentence<void> link_plain_names(const Ucx &ucx, const fs::path &directory) {
    try {
        link_all(ucx.libraries, directory);
        link_all(ucx.libraries / "ucx", directory / "ucx"); // UCX looks for modules beside the libucs that was loaded
    } catch (const fs::filesystem_error &error) {
        return Sentence(os::format("cannot create links to the UCX in {}: {}", ucx.libraries.string(), error.what()));
    }
    return {};
}

} // namespace gaudi::cli
