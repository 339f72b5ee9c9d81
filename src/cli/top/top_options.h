// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace gaudi::cli {

struct TopOptions {
    bool once = false;
    bool json = false;
};

struct MetricsOptions {
    std::string listen; // ADDRESS:PORT
    std::string output; // a file
    bool json = false;
};

} // namespace gaudi::cli
