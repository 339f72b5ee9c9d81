// SPDX-License-Identifier: BSD-3-Clause
// Runs a program in place of this one.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace gaudi::cli {

/// Blocks, from its construction on, the signals that would end this process, so that they can be passed on to a child.
class HeldSignals {
public:
    HeldSignals();

    const sigset_t &set() const { return m_set; }
    /// To be called in the child: restores the signals as this process was started with them.
    void restore() const;

private:
    sigset_t m_set;
    sigset_t m_before;
    struct sigaction m_on_child; // the action for SIGCHLD at the start of this process
};

/// Runs `command` (found by PATH) in the environment of this process and waits for it, passing signals on; its stdout goes
/// to `output`. Returns an exit code as shells do: that of the program; 128+N when signal N ended it, or told this process
/// to end; 126 or 127, after a message on stderr, when it cannot be started.
int run_child(const std::vector<std::string> &command, const HeldSignals &signals, int output = STDOUT_FILENO);

} // namespace gaudi::cli
