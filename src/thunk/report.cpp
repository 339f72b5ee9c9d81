// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace gaudi::thunk {
namespace {

void write_to_stderr(const Error &error) {
    // One string, one write: lines of several processes must not mix.
    const std::string line = "ucx-gaudi: " + error.text + "\n";
    std::fputs(line.c_str(), stderr);
}

std::atomic<Report> s_report{write_to_stderr};

} // namespace

Report set_report(Report report) noexcept { return s_report.exchange(report != nullptr ? report : write_to_stderr); }

void report(const Error &error) noexcept {
    try {
        s_report.load()(error);
    } catch (...) { // as in release_or_report
    }
}

} // namespace gaudi::thunk
