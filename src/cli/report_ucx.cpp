// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "report.h"

#include "output_of.h"
#include "path_list.h"
#include "ucx.h"
#include "ucx_probe.h"

#include <sstream>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// The package directories of the python3 in PATH: many programs get their UCX from a wheel there.
std::vector<fs::path> list_python_packages() {
    std::vector<fs::path> found;
    std::istringstream lines(output_of({"python3", "-c", "import sys; print(*sys.path[1:], sep='\\n')"}));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('/'))
            found.emplace_back(line);
    }
    return found;
}

struct Found {
    std::string source;
    std::string libucs;
    UcxProbe probe;
};

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
        const bool named =
            contains_directory(read_path_list("LD_LIBRARY_PATH"), fs::path(probed->libucs).parent_path());
        reports.push_back(
            {named ? "LD_LIBRARY_PATH" : "loader", probed->libucs, probed->version, explain_unusable(*probed)});
    }
    for (Found &one : found) {
        const auto probed = one.probe.read_answer();
        if (probed)
            reports.push_back(
                {std::move(one.source), std::move(one.libucs), probed->version, explain_unusable(*probed)});
        else
            reports.push_back({std::move(one.source), std::move(one.libucs), "", probed.error()});
    }
    return reports;
}

} // namespace gaudi::cli
