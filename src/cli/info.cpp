// SPDX-License-Identifier: BSD-3-Clause
#include "info.h"

#include "os/format.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gaudi::cli {

int run_info(bool json) {
    const auto report = make_report();
    if (!report) {
        os::print(stderr, "ucx_gaudi: {}\n", report.error());
        return 1;
    }
    const std::string text = json ? format_json(*report) : format_text(*report);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        os::print(stderr, "ucx_gaudi: cannot write to stdout: {}\n", std::strerror(errno));
        return 1;
    }
    return 0;
}

} // namespace gaudi::cli
