// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "top_options.h"

namespace gaudi::cli {

int run_top(const TopOptions &options);
int run_metrics(const MetricsOptions &options);

} // namespace gaudi::cli
