// SPDX-License-Identifier: BSD-3-Clause
// The processes of a transfer, as their parent sees them.
#pragma once

#include "cli/child.h"
#include "side.h"

#include <chrono>
#include <string>
#include <vector>

namespace gaudi::cli::explain {

struct SideResult {
    std::optional<SideReport> report; // nothing: the process crashed or was ended
    std::string log;                  // all that the process printed
    std::string ending;               // how it ended without a report; empty if this process ended it
};

struct SidesResult {
    std::vector<SideResult> sides; // in the order of the tasks
    bool timed_out = false;
    int signal = 0; // that told this process to end
};

/// Starts a process for each task, with a socket between two, and waits for them. None is left when it returns, nor when this
/// process is killed. The sockets and files of the tasks are filled in here.
OrSentence<SidesResult> run_sides(std::vector<SideTask> tasks, const HeldSignals &signals, std::chrono::seconds limit);

} // namespace gaudi::cli::explain
