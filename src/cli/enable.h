// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi enable and disable: UCX_PLUGIN_PATH in a ucx.conf, which lasts where a variable does not (sudo, remote ranks).
#pragma once

#include <string>

namespace gaudi::cli {

/// Whose UCX is meant. Without a choice it is the active virtual environment's, or this user's if none is active.
struct EnableOptions {
    bool venv = false;
    std::string venv_directory; // empty: the active one
    bool user = false;
    bool system = false;
    bool json = false;
};

/// Both return the exit code.
int run_enable(const EnableOptions &options);
int run_disable(const EnableOptions &options);

} // namespace gaudi::cli
