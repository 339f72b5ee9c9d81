// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi plugin-path: the module directory, and whether a client's UCX loads it.
#pragma once

#include <string>

namespace gaudi::cli {

struct PluginPathOptions {
    std::string client; // nixl, openmpi or a directory; empty: no check
    bool json = false;
};

/// Returns the exit code.
int run_plugin_path(const PluginPathOptions &options);

} // namespace gaudi::cli
