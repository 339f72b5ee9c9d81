// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "report.h"

#include "path_list.h"
#include "ucx.h"
#include "ucx_probe.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// The package directories of the python3 in PATH: many programs get their UCX from a wheel there.
std::vector<fs::path> list_python_packages() {
    std::vector<fs::path> found;
    const auto close = [](std::FILE *stream) { ::pclose(stream); };
    const std::unique_ptr<std::FILE, decltype(close)> stream(
        ::popen("exec python3 -c 'import sys; print(*sys.path[1:], sep=\"\\n\")' 2>/dev/null </dev/null", "re"), close);
    char *line = nullptr;
    std::size_t size = 0;
    ssize_t length = 0;
    while (stream && (length = ::getline(&line, &size, stream.get())) > 0) {
        const std::string_view text(line, static_cast<std::size_t>(length - 1));
        if (text.starts_with('/'))
            found.emplace_back(text);
    }
    std::free(line);
    return found;
}

struct Found {
    std::string source;
    std::string libucs;
    UcxProbe probe;
};

bool reads_plugin_path(const std::string &version) {
    int major = 0, minor = 0;
    return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= 22));
}

} // namespace

std::vector<UcxReport> report_ucx() {
    UcxProbe here("libucp.so.0"); // the UCX that a linked program gets in this environment
    std::vector<Found> found;
    for (const FetchedUcx &build : list_fetched_ucx()) {
        if (build.name != "rapids") // another name of a rapids-* one
            found.push_back(
                {os::format("--ucx {}", build.name), build.ucx.libucs.string(), UcxProbe(build.ucx.libucp.string())});
    }
    for (const fs::path &directory : list_python_packages()) {
        for (const Ucx &ucx : find_ucx_in(directory))
            found.push_back({"python3", ucx.libucs.string(), UcxProbe(ucx.libucp.string())});
    }

    std::vector<UcxReport> reports;
    if (auto probed = here.read_answer()) {
        const bool named = path_list_contains("LD_LIBRARY_PATH", fs::path(probed->libucs).parent_path());
        reports.push_back({named ? "LD_LIBRARY_PATH" : "loader", probed->libucs, probed->version,
                           reads_plugin_path(probed->version)});
    }
    for (Found &one : found) {
        const auto probed = one.probe.read_answer();
        const std::string version = probed ? probed->version : "";
        reports.push_back({std::move(one.source), std::move(one.libucs), version, reads_plugin_path(version)});
    }
    return reports;
}

} // namespace gaudi::cli
