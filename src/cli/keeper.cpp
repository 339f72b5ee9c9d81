// SPDX-License-Identifier: BSD-3-Clause
#include "keeper.h"

#include "os/system_call.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kAlive = 3; // the only descriptor of the keeper, behind the standard streams

/// Closes what the process was started with: an open pipe would keep its reader waiting, and the lock of the directory
/// would never be free.
void close_others() {
    if (os::system_call(SYS_close_range, kAlive + 1, ~0U, 0) == 0)
        return;
    for (int fd = kAlive + 1; fd < static_cast<int>(::sysconf(_SC_OPEN_MAX)); ++fd) // Linux before 5.9
        ::close(fd);
}

/// Whether the run has ended in order; false after its death.
bool wait_for_the_run() {
    char byte = 0;
    ssize_t got = 0;
    while ((got = ::read(kAlive, &byte, 1)) < 0 && errno == EINTR) {
    }
    return got == 1;
}

[[noreturn]] void keep(const fs::path &directory, int alive) {
    ::setsid(); // signals of the terminal and to the group of the run do not reach it
    const int nowhere = ::open("/dev/null", O_RDWR);
    ::dup2(alive, kAlive);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nowhere, stream);
    close_others();
    if (::chdir("/") != 0 || wait_for_the_run())
        ::_exit(0);
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    // The programs hold the lock as long as one of them lives. A later run that gets it first removes the directory.
    while (::flock(fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    std::error_code error;
    if (fd >= 0)
        fs::remove_all(directory, error);
    ::_exit(0);
}

} // namespace

Keeper::Keeper(const fs::path &directory) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    const thunk::Fd in(ends[0]);
    m_alive = thunk::Fd(ends[1]);
    m_child = ::fork();
    if (m_child == 0)
        keep(directory, in.get());
}

Keeper::~Keeper() {
    if (m_child <= 0)
        return;
    // MSG_NOSIGNAL: the keeper may have been killed, which is no reason for the run to die of SIGPIPE.
    [[maybe_unused]] const ssize_t sent = ::send(m_alive.get(), "", 1, MSG_NOSIGNAL);
    while (::waitpid(m_child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

} // namespace gaudi::cli
