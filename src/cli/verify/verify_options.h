// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace gaudi::cli {

struct VerifyOptions {
    std::string card; // module:N; empty: chosen by the variables of the user
    std::string nic;  // the name of an RDMA device; empty: the first with an active port
    bool with_synapse = false;
    unsigned soak_seconds = 60;
    std::string json; // a file
};

} // namespace gaudi::cli
