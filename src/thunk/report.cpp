// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace gaudi::thunk {
namespace {

void to_stderr(const Error &error) {
    // One string, one write: lines of several processes must not mix.
    const std::string line = "ucx-gaudi: " + error.text + "\n";
    std::fputs(line.c_str(), stderr);
}

std::atomic<Report> current{to_stderr};

} // namespace

Report set_report(Report report) noexcept { return current.exchange(report != nullptr ? report : to_stderr); }

void report(const Error &error) noexcept {
    try {
        current.load()(error);
    } catch (...) { // see release_or_report
    }
}

} // namespace gaudi::thunk
