// SPDX-License-Identifier: BSD-3-Clause
// The output of a program, for queries.
#pragma once

#include <string>
#include <vector>

namespace gaudi::cli {

/// What the program (found by PATH) writes to stdout; empty if it cannot be started or fails. Its stderr is dropped.
std::string output_of(const std::vector<std::string> &command);

struct FullOutput {
    bool succeeded = false; // false also where it cannot be started
    std::string text;       // stdout and stderr
};
FullOutput full_output_of(const std::vector<std::string> &command);

} // namespace gaudi::cli
