// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi run: any UCX program on the software Gaudi.
#pragma once

#include <string>
#include <vector>

namespace gaudi::cli {

struct RunOptions {
    // Empty if not given. docs/softgaudi.md and docs/softhca.md describe the values.
    std::string cards;
    std::string model;
    std::string pace;
    std::string faults;
    std::string quirks;
    std::string profile;
    std::string directory;
    std::string ucx;
    std::string hcas;
    std::string json; // the file to write the report to
    bool topology = false;
    bool statistics = false;
    bool verbose = false;
    std::vector<std::string> command;
};

/// Runs the command; returns the exit code.
int run_program(const RunOptions &options);

} // namespace gaudi::cli
