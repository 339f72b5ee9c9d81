// SPDX-License-Identifier: BSD-3-Clause
#include "child_answer.h"

#include "probe_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace gaudi::cli {

ChildAnswer::ChildAnswer(const std::function<void(int out)> &write) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return;
    m_in = thunk::Fd(ends[0]);
    const thunk::Fd out(ends[1]);
    const pid_t parent = ::getpid();
    m_child = ::fork();
    if (m_child != 0)
        return;
    become_probe(parent);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nowhere, stream);
    write(out.get());
    ::_exit(0);
}

std::string ChildAnswer::read() {
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    while (is_started() && ((got = ::read(m_in.get(), buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR))) {
        if (got > 0)
            text.append(buffer, static_cast<std::size_t>(got));
    }
    reap();
    return text;
}

void ChildAnswer::reap() {
    const pid_t child = std::exchange(m_child, -1);
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

} // namespace gaudi::cli
