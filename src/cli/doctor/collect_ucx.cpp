// SPDX-License-Identifier: BSD-3-Clause
#include "cli/places.h"
#include "collect.h"
#include "thunk/fd.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

/// The loader's error about a library, from a child process: in this one it could not be unloaded. Empty if it loads.
std::string load_error_of(const std::string &library) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return {};
    const thunk::Fd in(ends[0]);
    thunk::Fd out(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        if (!::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL))
            ::dprintf(out.get(), "%s", ::dlerror());
        ::_exit(0);
    }
    out = thunk::Fd();
    if (child < 0)
        return {};
    std::string text;
    char buffer[1024];
    for (ssize_t got = 0; (got = ::read(in.get(), buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0)
            text.append(buffer, static_cast<std::size_t>(got));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return text.empty() && WIFSIGNALED(status) ? library + " crashes when it is loaded" : text;
}

std::vector<std::string> list_missing(const std::vector<std::string> &files) {
    std::vector<std::string> missing;
    for (const char *name : {"libgaudi-core.so.1", "libuct_gaudi.so", "libuct_gaudi.so.0", "libuct_gaudi.so.0.0.0",
                             "libucm_gaudi.so", "libucm_gaudi.so.0", "libucm_gaudi.so.0.0.0"}) {
        if (std::ranges::find(files, name) == files.end())
            missing.emplace_back(name);
    }
    return missing;
}

} // namespace

void collect_modules(const Machine &machine, Facts &facts) {
    const auto modules = find_module_directory();
    if (!modules)
        return;
    facts.module_directory = modules->string();
    facts.module_files = machine.list(*modules);
    facts.missing_modules = list_missing(facts.module_files);
}

void collect_ucx(const Machine &machine, Facts &facts) {
    collect_modules(machine, facts);
    fs::path libraries; // of the UCX whose ucx.conf counts
    for (UcxFacts &ucx : list_ucx()) {
        if (ucx.why_unusable.empty()) {
            const std::vector<SettingFacts> settings = collect_settings(machine, fs::path(ucx.libucs).parent_path());
            if (const auto path = std::ranges::find(settings, "UCX_PLUGIN_PATH", &SettingFacts::name);
                path != settings.end()) {
                ucx.plugin_path = path->value;
                ucx.plugin_path_source = path->source;
            }
            ucx.files = collect_module_files(machine, ucx.libucs, settings);
            const auto loaded =
                std::ranges::find_if(ucx.files, [](const ModuleFileFacts &file) { return file.why_skipped.empty(); });
            if (loaded != ucx.files.end())
                ucx.load_error = load_error_of(loaded->path);
            if (libraries.empty())
                libraries = fs::path(ucx.libucs).parent_path();
        }
        facts.ucx.push_back(std::move(ucx));
    }
    facts.settings = collect_settings(machine, libraries);
}

} // namespace gaudi::cli::doctor
