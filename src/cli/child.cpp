// SPDX-License-Identifier: BSD-3-Clause
#include "child.h"

#include "thunk/fd.h"

#include <fmt/format.h>

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
constexpr std::array kOthers = {SIGUSR1, SIGUSR2}; // batch systems announce the end with them

bool ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Never returns: becomes the program, or sends the errno.
[[noreturn]] void become(const std::vector<std::string> &command, int failed) {
    std::vector<char *> words;
    for (const std::string &word : command)
        words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words.front(), words.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t sent = ::write(failed, &error, sizeof error);
    ::_exit(127);
}

/// The wait status of the child; `asked` becomes the signal by which somebody told us to end.
int wait_for(pid_t child, const sigset_t &set, int &asked) {
    while (true) {
        siginfo_t info{};
        const int signal = ::sigwaitinfo(&set, &info);
        if (signal == SIGCHLD) {
            int status = 0;
            if (::waitpid(child, &status, WNOHANG) == child)
                return status;
        } else if (signal > 0 && info.si_code != SI_KERNEL) {
            // What the terminal sends (SI_KERNEL) the child has got as well, and twice means more to some programs.
            ::kill(child, signal);
            if (std::find(kEnding.begin(), kEnding.end(), signal) != kEnding.end())
                asked = signal;
        }
    }
}

int cannot_start(const std::string &program, int error) {
    fmt::print(stderr, "ucx_gaudi: cannot run '{}': {}\n", program, std::strerror(error));
    return error == ENOENT ? 127 : 126;
}

} // namespace

HeldSignals::HeldSignals() {
    ::sigemptyset(&m_set);
    ::sigaddset(&m_set, SIGCHLD);
    const auto add = [this](int signal) {
        if (!ignored(signal)) // as nohup starts us: it stays so
            ::sigaddset(&m_set, signal);
    };
    std::for_each(kEnding.begin(), kEnding.end(), add);
    std::for_each(kOthers.begin(), kOthers.end(), add);
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &usual, &m_on_child); // if it is ignored there is nothing to wait for
    ::sigprocmask(SIG_BLOCK, &m_set, &m_before);
}

void HeldSignals::restore() const {
    ::sigaction(SIGCHLD, &m_on_child, nullptr);
    ::sigprocmask(SIG_SETMASK, &m_before, nullptr);
}

int run_child(const std::vector<std::string> &command, const HeldSignals &signals) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return cannot_start(command.front(), errno);
    const thunk::Fd in(ends[0]);
    thunk::Fd out(ends[1]);

    const pid_t child = ::fork();
    if (child == 0) {
        signals.restore();
        become(command, out.get());
    }
    const int fork_error = errno;
    (void)out.close();
    if (child < 0)
        return cannot_start(command.front(), fork_error);

    int asked = 0;
    const int status = wait_for(child, signals.set(), asked);
    int error = 0;
    if (::read(in.get(), &error, sizeof error) == sizeof error)
        return cannot_start(command.front(), error);
    if (asked)
        return 128 + asked;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace gaudi::cli
