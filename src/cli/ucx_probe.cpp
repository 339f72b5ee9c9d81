// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace gaudi::cli {
namespace {

/// Runs in the child: writes two lines to `out`, or nothing.
void write_answer(const std::string &libucp, int out) {
    // Warnings of UCX must not mix with the answer.
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nowhere, stream);
    void *library = ::dlopen(libucp.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return;
    using Version = const char *();
    auto *version = reinterpret_cast<Version *>(::dlsym(library, "ucp_get_version_string"));
    // A function of libucs, found through the dependencies of libucp, whatever the file of libucs is called.
    void *function = ::dlsym(library, "ucs_status_string");
    Dl_info info{};
    if (version && function && ::dladdr(function, &info) != 0)
        ::dprintf(out, "%s\n%s\n", info.dli_fname, version());
}

std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(fd, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR)) {
        if (got > 0)
            text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
}

} // namespace

UcxProbe::UcxProbe(const std::string &libucp) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return;
    m_in = thunk::Fd(ends[0]);
    const thunk::Fd out(ends[1]);
    m_child = ::fork();
    if (m_child == 0) {
        write_answer(libucp, out.get());
        ::_exit(0);
    }
}

UcxProbe::~UcxProbe() { reap(); }

std::optional<ProbedUcx> UcxProbe::read_answer() {
    if (m_child < 0)
        return {};
    const std::string text = read_all(m_in.get());
    reap();
    const std::size_t first = text.find('\n');
    const std::size_t second = first == std::string::npos ? first : text.find('\n', first + 1);
    if (second == std::string::npos)
        return {};
    return ProbedUcx{text.substr(0, first), text.substr(first + 1, second - first - 1)};
}

void UcxProbe::reap() {
    const pid_t child = std::exchange(m_child, -1);
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

} // namespace gaudi::cli
