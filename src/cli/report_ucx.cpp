// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include "path_list.h"
#include "ucx.h"
#include "ucx_probe.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// Where the python3 of this shell looks for packages; UCX comes to many programs that way.
std::vector<fs::path> python_packages() {
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

bool looks_for_modules(const std::string &version) {
    int major = 0, minor = 0;
    return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= 22));
}

} // namespace

std::vector<UcxReport> report_ucx() {
    UcxProbe here("libucp.so.0"); // what a program linked to UCX gets here and now
    std::vector<Found> found;
    for (const Engine &engine : engines()) {
        if (engine.name != "rapids") // the same as one of the others
            found.push_back({fmt::format("--ucx {}", engine.name), engine.ucx.libucs.string(),
                             UcxProbe(engine.ucx.libucp.string())});
    }
    for (const fs::path &directory : python_packages()) {
        for (const Ucx &ucx : ucx_in(directory))
            found.push_back({"python3", ucx.libucs.string(), UcxProbe(ucx.libucp.string())});
    }

    std::vector<UcxReport> reports;
    if (auto probed = here.answer()) {
        const bool named = lists("LD_LIBRARY_PATH", fs::path(probed->libucs).parent_path());
        reports.push_back({named ? "LD_LIBRARY_PATH" : "loader", probed->libucs, probed->version,
                           looks_for_modules(probed->version)});
    }
    for (Found &one : found) {
        const auto probed = one.probe.answer();
        const std::string version = probed ? probed->version : "";
        reports.push_back({std::move(one.source), std::move(one.libucs), version, looks_for_modules(version)});
    }
    return reports;
}

} // namespace gaudi::cli
