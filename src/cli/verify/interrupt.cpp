// SPDX-License-Identifier: BSD-3-Clause
#include "interrupt.h"

#include <csignal>
#include <initializer_list>

namespace gaudi::cli::verify {
namespace {

volatile std::sig_atomic_t s_signal = 0;

} // namespace

void note_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int signal) { s_signal = signal; };
    action.sa_flags =
        static_cast<int>(SA_RESETHAND); // a second signal ends a call that blocks, and the kernel closes the card
    for (const int signal : {SIGINT, SIGTERM})
        ::sigaction(signal, &action, nullptr);
}

bool is_interrupted() { return s_signal != 0; }
int interrupting_signal() { return s_signal; }

} // namespace gaudi::cli::verify
