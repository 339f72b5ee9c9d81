// SPDX-License-Identifier: BSD-3-Clause
// Running a program as if it were this one.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

namespace gaudi::cli {

/// From its making on, signals that would end this process wait to be handed on: nothing is left half done.
class HeldSignals {
public:
    HeldSignals();

    const sigset_t &set() const { return m_set; }
    /// In the child: as if there had been nobody in between.
    void restore() const;

private:
    sigset_t m_set;
    sigset_t m_before;
    struct sigaction m_on_child; // what we were started with
};

/// Runs `command` (found by PATH) in the environment of this process and waits for it, handing signals on. Returns the
/// exit code as shells give it: the program's, 128+N when signal N ended it or was sent to this process to end it, 126
/// or 127 after a sentence on stderr when it cannot be started.
int run_child(const std::vector<std::string> &command, const HeldSignals &signals);

} // namespace gaudi::cli
