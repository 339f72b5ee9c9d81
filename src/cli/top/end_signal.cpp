// SPDX-License-Identifier: BSD-3-Clause
#include "end_signal.h"

#include <csignal>

namespace gaudi::cli::top {
namespace {

constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile std::sig_atomic_t s_ended = 0;
sigset_t s_waiting; // the mask of the process before note_end_signals()

/// As nohup starts a program with SIGHUP: it stays ignored.
bool is_ignored(int signal) {
    struct sigaction action {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

} // namespace

void note_end_signals() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : kEnds)
        sigaddset(&ends, signal);
    sigprocmask(SIG_BLOCK, &ends, &s_waiting);
    struct sigaction action {};
    action.sa_handler = [](int) { s_ended = 1; };
    for (const int signal : kEnds) {
        if (!is_ignored(signal))
            sigaction(signal, &action, nullptr);
        sigdelset(&s_waiting, signal);
    }
    signal(SIGPIPE, SIG_IGN); // a reader that goes away is no reason to end
}

bool has_end_signal() { return s_ended != 0; }

int poll_until_end(std::span<pollfd> descriptors, int milliseconds) {
    const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
    return ppoll(descriptors.data(), descriptors.size(), milliseconds < 0 ? nullptr : &limit, &s_waiting);
}

} // namespace gaudi::cli::top
