// SPDX-License-Identifier: BSD-3-Clause
// `ucx_gaudi doctor`: why is it not there, why is it not fast. `ucx_gaudi dump`: all that it looks at, in a file.
#pragma once

#include "doctor_options.h"

namespace gaudi::cli {

/// Returns 0 if all is well, 1 if a check failed.
int run_doctor(const DoctorOptions &options);
int run_dump(const DumpOptions &options);

} // namespace gaudi::cli
