// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi info: the cards, the libraries and the modules of this machine.
#pragma once

#include "report.h"

#include <string>

namespace gaudi::cli {

/// The exit code.
int info(bool json);

std::string as_text(const Report &report);
std::string as_json(const Report &report);

} // namespace gaudi::cli
