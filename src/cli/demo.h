// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi demo: the software server at work, what matters first.
#pragma once

#include <string>

namespace gaudi::cli {

/// Shows RDMA with zero copy and without, exchanges within the machine, and copies through each card. `ucx` names the UCX
/// as --ucx of `run` does; without it the best one that is found is used. With `json` all of it is printed as JSON at the
/// end. Returns the exit code.
int run_demo(const std::string &ucx, bool json);

} // namespace gaudi::cli
