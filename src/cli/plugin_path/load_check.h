// SPDX-License-Identifier: BSD-3-Clause
// Whether the UCX behind a library loads our modules, tried in a process of its own.
#pragma once

#include <filesystem>
#include <string>

namespace gaudi::cli {

struct LoadCheck {
    std::string libucp, libucs; // the files that were loaded; empty where none was
    std::string version;        // as in "1.22.0"
    std::string reason;         // why the modules do not load; empty if they do
};

/// Loads `library` (a libucp, or one that brings a libucp along) with `modules` in UCX_PLUGIN_PATH, and looks for the
/// component gaudi_copy.
LoadCheck check_load(const std::filesystem::path &library, const std::filesystem::path &modules);

} // namespace gaudi::cli
