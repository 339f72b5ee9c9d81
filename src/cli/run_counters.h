// SPDX-License-Identifier: BSD-3-Clause
// What the programs of a run did on the software cards and NICs, while the directories of the run are still there.
#pragma once

#include <string>
#include <vector>

namespace gaudi::cli {

/// Prints the counters on stderr, for `run --stat`.
void print_counters(bool with_nics);

/// The report of `run --json` (docs/schema/run-1.json). `code` is the exit code of the program.
std::string describe_run(const std::vector<std::string> &command, int code, bool with_nics);

} // namespace gaudi::cli
