// SPDX-License-Identifier: BSD-3-Clause
// Directories that look like an installed UCX. Its libraries tell a version and can do nothing else.
#pragma once

#include <filesystem>
#include <string>

namespace cli {

/// Puts libraries of a usable UCX into a directory.
inline void add_fake_ucx(const std::filesystem::path &libraries, const char *library = FAKE_UCX,
                         const std::string &libucs = "libucs.so.0", const std::string &libucp = "libucp.so.0") {
    std::filesystem::create_directories(libraries);
    for (const std::string &name : {libucs, libucp})
        std::filesystem::copy_file(library, libraries / name);
}

} // namespace cli
