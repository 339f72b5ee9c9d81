// SPDX-License-Identifier: BSD-3-Clause
// `ucx_gaudi info`: the cards, the libraries and UCX of a machine on one screen, from the facts that doctor judges.
#pragma once

#include "cli/doctor/check.h"

#include <string>
#include <vector>

namespace gaudi::cli {

struct InfoOptions {
    bool json = false;
    std::string from; // a file of `dump` in the place of this machine
};

/// Returns 0 whatever is wrong with the machine: judging it is for doctor.
int run_info(const InfoOptions &options);

namespace info {

std::string format_text(const doctor::Facts &facts, const std::vector<doctor::Result> &results);
std::string format_json(const doctor::Facts &facts, const std::vector<doctor::Result> &results);

} // namespace info
} // namespace gaudi::cli
