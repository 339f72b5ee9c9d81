// SPDX-License-Identifier: BSD-3-Clause
// `ucx_gaudi topo`: how near cards, NICs and processors are to each other, and which NICs UCX uses for which card.
#pragma once

#include <string>

namespace gaudi::cli {

struct TopoOptions {
    bool json = false;
    std::string svg;  // file to draw the server to
    std::string from; // a file of `dump` in the place of this machine
};

/// Returns the exit code.
int run_topo(const TopoOptions &options);

} // namespace gaudi::cli
