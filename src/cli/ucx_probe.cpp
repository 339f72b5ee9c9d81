// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_probe.h"

#include <dlfcn.h>

#include <cstdio>
#include <sstream>

namespace gaudi::cli {
namespace {

constexpr char kFailed = '!'; // the first letter of an answer that is an error

/// Runs in the child: writes a line each for the file, the version and statistics to `out`, or an error.
void write_answer(const std::string &libucp, int out) {
    // A libucp by its path is to get the libraries beside it, whichever LD_LIBRARY_PATH names; those of wheels have other
    // names and find each other by themselves.
    const std::size_t slash = libucp.rfind('/');
    for (const char *name : {"libucm.so.0", "libucs.so.0", "libuct.so.0"})
        if (slash != std::string::npos)
            ::dlopen((libucp.substr(0, slash + 1) + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
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

UcxProbe::UcxProbe(const std::string &libucp) : m_child([&](int out) { write_answer(libucp, out); }) {}

OrSentence<ProbedUcx> UcxProbe::read_answer() {
    if (!m_child.is_started())
        return Sentence("no process could be started to load it in");
    const std::string text = m_child.read();
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

} // namespace gaudi::cli
