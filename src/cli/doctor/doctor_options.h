// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace gaudi::cli {

struct DoctorOptions {
    bool active = false; // opens cards
    bool strict = false; // warnings count as failures
    bool json = false;
    std::string from; // a file of `dump` in the place of this machine
};

struct DumpOptions {
    bool active = false;
    bool json = false;  // as it always is
    std::string output; // empty: stdout
};

} // namespace gaudi::cli
