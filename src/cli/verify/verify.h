// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi verify: tries the assumptions about cards and their driver on one card.
#pragma once

#include "verify_options.h"

namespace gaudi::cli {

/// Returns the exit code: 0 if nothing failed, 1 if something did or could not be started, 128+N after signal N (SIGINT, SIGTERM).
int run_verify(const VerifyOptions &options);

} // namespace gaudi::cli
