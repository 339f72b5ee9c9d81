// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi info: the cards, the libraries and the modules of this machine.
#pragma once

#include "report.h"

#include <string>

namespace gaudi::cli {

/// Prints the report; returns the exit code.
int run_info(bool json);

std::string format_text(const Report &report);
std::string format_json(const Report &report);

} // namespace gaudi::cli
