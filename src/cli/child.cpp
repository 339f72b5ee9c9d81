// SPDX-License-Identifier: BSD-3-Clause
#include "child.h"

#include "os/format.h"
#include "thunk/fd.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gaudi::cli {
namespace {

constexpr std::array kEnding = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
constexpr std::array kOthers = {SIGUSR1, SIGUSR2}; // batch systems announce the end of a job with them

bool is_ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Replaces this process by the program. On failure writes the errno to `failed` and exits.
[[noreturn]] void execute(const std::vector<std::string> &command, int failed) {
    std::vector<char *> words;
    for (const std::string &word : command)
        words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words.front(), words.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t sent = ::write(failed, &error, sizeof error);
    ::_exit(127);
}

/// Waits for the child, passing signals on to it, and returns its wait status. `ended_by` becomes the signal that told
/// this process to end, if one came.
int wait_for_child(pid_t child, const sigset_t &set, int &ended_by) {
    while (true) {
        siginfo_t info{};
        const int signal = ::sigwaitinfo(&set, &info);
        if (signal == SIGCHLD) {
            int status = 0;
            if (::waitpid(child, &status, WNOHANG) == child)
                return status;
        } else if (signal > 0 && info.si_code != SI_KERNEL) {
            // A signal of the terminal (SI_KERNEL) has reached the child too, and some programs react to a second one.
            ::kill(child, signal);
            if (std::find(kEnding.begin(), kEnding.end(), signal) != kEnding.end())
                ended_by = signal;
        }
    }
}

int report_failed_start(const std::string &program, int error) {
    os::print(stderr, "ucx_gaudi: cannot run '{}': {}\n", program, std::strerror(error));
    return error == ENOENT ? 127 : 126;
}

} // namespace

HeldSignals::HeldSignals() {
    ::sigemptyset(&m_set);
    ::sigaddset(&m_set, SIGCHLD);
    const auto add = [this](int signal) {
        if (!is_ignored(signal)) // nohup starts programs with ignored signals, which stay ignored
            ::sigaddset(&m_set, signal);
    };
    std::for_each(kEnding.begin(), kEnding.end(), add);
    std::for_each(kOthers.begin(), kOthers.end(), add);
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &usual, &m_on_child); // while it is ignored, the kernel reports no ended child
    ::sigprocmask(SIG_BLOCK, &m_set, &m_before);
}

void HeldSignals::restore() const {
    ::sigaction(SIGCHLD, &m_on_child, nullptr);
    ::sigprocmask(SIG_SETMASK, &m_before, nullptr);
}

int run_child(const std::vector<std::string> &command, const HeldSignals &signals, int output) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return report_failed_start(command.front(), errno);
    const thunk::Fd in(ends[0]);
    thunk::Fd out(ends[1]);

    const pid_t child = ::fork();
    if (child == 0) {
        signals.restore();
        if (output != STDOUT_FILENO)
            ::dup2(output, STDOUT_FILENO);
        execute(command, out.get());
    }
    const int fork_error = errno;
    (void)out.close();
    if (child < 0)
        return report_failed_start(command.front(), fork_error);

    int ended_by = 0;
    const int status = wait_for_child(child, signals.set(), ended_by);
    int error = 0;
    if (::read(in.get(), &error, sizeof error) == sizeof error)
        return report_failed_start(command.front(), error);
    if (ended_by)
        return 128 + ended_by;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace gaudi::cli
