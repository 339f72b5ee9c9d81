// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "bench_options.h"

namespace gaudi::cli {

/// Returns the exit code: 1 too if data arrived wrong, or if a row is slower than in the run that it is compared with.
int run_bench(const BenchOptions &options);

} // namespace gaudi::cli
