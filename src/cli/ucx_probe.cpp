// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <sstream>

namespace gaudi::cli {
namespace {

constexpr char kFailed = '!'; // the first letter of an answer that is an error

/// Runs in the child: writes a line each for the file, the version and statistics to `out`, or an error.
void write_answer(const std::string &libucp, int out) {
    // Warnings of UCX must not mix with the answer.
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nowhere, stream);
    void *library = ::dlopen(libucp.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        ::dprintf(out, "%c%s", kFailed, ::dlerror());
        return;
    }
    using Version = const char *();
    auto *version = reinterpret_cast<Version *>(::dlsym(library, "ucp_get_version_string"));
    // A function of libucs, found through the dependencies of libucp, whatever the file of libucs is called.
    void *function = ::dlsym(library, "ucs_status_string");
    Dl_info info{};
    if (!version || !function || ::dladdr(function, &info) == 0) {
        const std::string why = libucp + ": it has no ucp_get_version_string or no ucs_status_string";
        ::dprintf(out, "%c%s", kFailed, why.c_str());
        return;
    }
    // Without statistics this function is a macro of UCX.
    const bool statistics = ::dlsym(library, "ucs_stats_node_alloc") != nullptr;
    ::dprintf(out, "%s\n%s\n%d\n", info.dli_fname, version(), statistics ? 1 : 0);
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

bool reads_plugin_path(const std::string &version) {
    int major = 0, minor = 0;
    return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= 22));
}

std::string explain_unusable(const ProbedUcx &ucx) {
    if (!reads_plugin_path(ucx.version))
        return "is older than 1.22 and does not load modules from UCX_PLUGIN_PATH; use 1.22 or later, as in the "
               "packages libucx-cu13 1.22 and nixl-cu12 1.4";
    if (ucx.statistics)
        return "was built with statistics, which the modules do not support; use one built without --enable-stats";
    return {};
}

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

OrSentence<ProbedUcx> UcxProbe::read_answer() {
    if (m_child < 0)
        return Sentence("no process could be started to load it in");
    const std::string text = read_all(m_in.get());
    reap();
    if (text.starts_with(kFailed))
        return Sentence(text.substr(1));
    std::istringstream lines(text);
    ProbedUcx found;
    std::string statistics;
    if (!std::getline(lines, found.libucs) || !std::getline(lines, found.version) || !std::getline(lines, statistics))
        return Sentence("the process that loads it has crashed");
    found.statistics = statistics == "1";
    return found;
}

void UcxProbe::reap() {
    const pid_t child = std::exchange(m_child, -1);
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

} // namespace gaudi::cli
