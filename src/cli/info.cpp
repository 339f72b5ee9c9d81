// SPDX-License-Identifier: BSD-3-Clause
#include "info.h"

#include "os/format.h"
#include "write_stdout.h"

#include <cstdio>

namespace gaudi::cli {

int run_info(bool json) {
    const auto report = make_report();
    if (!report) {
        os::print(stderr, "ucx_gaudi: {}\n", report.error());
        return 1;
    }
    return write_stdout(json ? format_json(*report) : format_text(*report)) ? 0 : 1;
}

} // namespace gaudi::cli
