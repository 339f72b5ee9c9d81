// SPDX-License-Identifier: BSD-3-Clause
#include "sides.h"

#include "os/format.h"
#include "thunk/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace gaudi::cli::explain {
namespace {

using Clock = std::chrono::steady_clock;

/// All of a file, from its start, but no more than a log of reasonable size.
std::string read_file(int file) {
    constexpr std::size_t kMost = 4 << 20;
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; text.size() < kMost; text.append(buffer, static_cast<std::size_t>(got)))
        if ((got = ::pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size()))) <= 0)
            break;
    return text;
}

/// A process, its files, and how it ended. It is killed with this object.
class SideProcess {
public:
    SideProcess() = default;
    SideProcess(SideProcess &&other) noexcept { *this = std::move(other); }
    SideProcess &operator=(SideProcess &&other) noexcept {
        std::swap(m_pid, other.m_pid);
        std::swap(m_status, other.m_status);
        std::swap(m_killed, other.m_killed);
        m_log = std::move(other.m_log);
        m_report = std::move(other.m_report);
        return *this;
    }
    ~SideProcess() { end(); }

    OrSentence<void> start(SideTask task, const HeldSignals &signals) {
        m_log = thunk::Fd(::memfd_create("explain-log", MFD_CLOEXEC));
        m_report = thunk::Fd(::memfd_create("explain-report", MFD_CLOEXEC));
        if (!m_log || !m_report)
            return Sentence(os::format("cannot create a file for a process: {}", std::strerror(errno)));
        task.report = m_report.get();
        const std::string words = write_task(task);
        const pid_t parent = ::getpid();
        m_pid = ::fork();
        if (m_pid == 0)
            execute(words, task.peer, parent, signals);
        if (m_pid < 0)
            return Sentence(os::format("cannot start a process: {}", std::strerror(errno)));
        return {};
    }

    bool is_running() const { return m_pid > 0; }
    /// Whether it has ended without success. To be called after SIGCHLD.
    bool has_failed() {
        if (m_pid > 0 && ::waitpid(m_pid, &m_status, WNOHANG) == m_pid)
            m_pid = -1;
        return m_pid < 0 && m_status != 0;
    }
    void end() {
        if (m_pid <= 0)
            return;
        m_killed = true;
        ::kill(m_pid, SIGKILL);
        while (::waitpid(m_pid, &m_status, 0) < 0 && errno == EINTR) {
        }
        m_pid = -1;
    }

    SideResult result() const {
        SideResult result{read_report(read_file(m_report.get())), read_file(m_log.get()), {}};
        if (m_killed)
            return result;
        if (WIFSIGNALED(m_status))
            result.ending =
                os::format("was ended by signal {} ({})", WTERMSIG(m_status), ::strsignal(WTERMSIG(m_status)));
        else if (!result.report)
            result.ending = os::format("ended with code {}", WEXITSTATUS(m_status));
        return result;
    }

private:
    /// Runs in the child: nothing here allocates memory.
    [[noreturn]] void execute(const std::string &task, int peer, pid_t parent, const HeldSignals &signals) const {
        signals.restore();
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) // it died before
            ::_exit(1);
        const int nowhere = ::open("/dev/null", O_RDONLY);
        ::dup2(nowhere, STDIN_FILENO);
        ::dup2(m_log.get(), STDOUT_FILENO);
        ::dup2(m_log.get(), STDERR_FILENO);
        for (const int kept : {m_report.get(), peer})
            if (kept >= 0)
                ::fcntl(kept, F_SETFD, 0);
        ::execl("/proc/self/exe", "ucx_gaudi", kSideWord, task.c_str(), nullptr);
        ::_exit(127);
    }

    pid_t m_pid = 0;
    int m_status = 0;
    bool m_killed = false;
    thunk::Fd m_log, m_report;
};

bool is_ending(int signal) { return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTERM; }

/// Waits until all have ended, one has failed, or the time is over.
void wait_for(std::vector<SideProcess> &processes, const HeldSignals &signals, Clock::time_point end,
              SidesResult &result) {
    const auto is_running = [](const SideProcess &process) { return process.is_running(); };
    while (std::ranges::any_of(processes, is_running)) {
        const auto left = std::max(end - Clock::now(), Clock::duration::zero());
        const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
        const timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
        const int signal = ::sigtimedwait(&signals.set(), nullptr, &limit);
        if (is_ending(signal)) {
            result.signal = signal;
            return;
        }
        bool failed = false;
        for (SideProcess &process : processes)
            failed = process.has_failed() || failed;
        if (failed)
            return;
        if (signal < 0 && errno == EAGAIN && std::ranges::any_of(processes, is_running)) {
            result.timed_out = true;
            return;
        }
    }
}

} // namespace

OrSentence<SidesResult> run_sides(std::vector<SideTask> tasks, const HeldSignals &signals, std::chrono::seconds limit) {
    const auto end = Clock::now() + limit;
    thunk::Fd sockets[2];
    if (tasks.size() == 2) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            return Sentence(os::format("cannot create a socket: {}", std::strerror(errno)));
        for (std::size_t i = 0; i < 2; ++i) {
            sockets[i] = thunk::Fd(ends[i]);
            tasks[i].peer = ends[i];
        }
    }
    std::vector<SideProcess> processes(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i)
        if (auto started = processes[i].start(tasks[i], signals); !started)
            return Sentence(started.error());
    for (thunk::Fd &socket : sockets)
        socket = thunk::Fd(); // so that each side sees the end of the other
    SidesResult result;
    wait_for(processes, signals, end, result);
    for (SideProcess &process : processes) {
        process.end();
        result.sides.push_back(process.result());
    }
    return result;
}

} // namespace gaudi::cli::explain
