// SPDX-License-Identifier: BSD-3-Clause
#include "probe_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace gaudi::cli {

void become_probe(pid_t parent) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) // it ended before the call
        ::_exit(1);
}

} // namespace gaudi::cli
