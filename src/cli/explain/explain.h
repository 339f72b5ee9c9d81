// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi explain: which way UCX takes for a transfer, and why not a better one.
#pragma once

#include <string>

namespace gaudi::cli {

struct ExplainOptions {
    std::string from, to, bytes;
    std::string operation = "tag";
    std::string ucx; // empty: the first in reach
    unsigned timeout_seconds = 60;
    bool json = false;
};

/// Returns the exit code.
int run_explain(const ExplainOptions &options);

} // namespace gaudi::cli
