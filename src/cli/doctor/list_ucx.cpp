// SPDX-License-Identifier: BSD-3-Clause
#include "collect.h"

#include "cli/path_list.h"
#include "cli/python_packages.h"
#include "cli/ucx.h"
#include "cli/ucx_probe.h"
#include "os/format.h"

#include <algorithm>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

struct Found {
    std::string source;
    std::string libucs; // empty: the probe tells
    UcxProbe probe;
};

/// The libraries that the loader would find if none came before them.
void find_in(const std::vector<fs::path> &directories, const std::string &source, std::vector<Found> &found) {
    for (const fs::path &directory : directories) {
        std::error_code error;
        if (const fs::path libucp = directory / "libucp.so.0"; fs::exists(libucp, error))
            found.push_back({source, "", UcxProbe(libucp.string())});
    }
}

} // namespace

std::vector<UcxFacts> list_ucx() {
    UcxProbe here("libucp.so.0"); // the UCX that a linked program gets in this environment
    std::vector<Found> found;
    find_in(read_path_list("LD_LIBRARY_PATH"), "LD_LIBRARY_PATH", found);
    find_in({"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/ucx/lib"}, "system", found);
    for (const FetchedUcx &build : list_fetched_ucx()) {
        if (build.name != "rapids") // another name of a rapids-* one
            found.push_back(
                {os::format("--ucx {}", build.name), build.ucx.libucs.string(), UcxProbe(build.ucx.libucp.string())});
    }
    for (const fs::path &directory : list_python_packages()) {
        for (const Ucx &ucx : find_ucx_in(directory))
            found.push_back({"python3", ucx.libucs.string(), UcxProbe(ucx.libucp.string())});
    }

    std::vector<UcxFacts> all;
    const auto add = [&](std::string source, std::string libucs, std::string version, std::string why_unusable) {
        UcxFacts ucx;
        ucx.source = std::move(source);
        ucx.libucs = std::move(libucs);
        ucx.version = std::move(version);
        ucx.why_unusable = std::move(why_unusable);
        all.push_back(std::move(ucx));
    };
    if (auto probed = here.read_answer()) {
        const bool named =
            contains_directory(read_path_list("LD_LIBRARY_PATH"), fs::path(probed->libucs).parent_path());
        add(named ? "LD_LIBRARY_PATH" : "loader", probed->libucs, probed->version, explain_unusable(*probed));
    }
    const auto is_listed = [&](const std::string &libucs) {
        return std::ranges::any_of(all, [&](const UcxFacts &ucx) {
            std::error_code error;
            return ucx.libucs == libucs || fs::equivalent(ucx.libucs, libucs, error);
        });
    };
    for (Found &one : found) {
        const auto probed = one.probe.read_answer();
        const bool by_name = one.libucs.empty(); // in a directory of the loader, where the one above may be again
        if (by_name && (!probed || is_listed(probed->libucs)))
            continue;
        std::string libucs = by_name ? probed->libucs : one.libucs;
        if (probed)
            add(std::move(one.source), std::move(libucs), probed->version, explain_unusable(*probed));
        else
            add(std::move(one.source), std::move(libucs), "", probed.error());
    }
    return all;
}

} // namespace gaudi::cli::doctor
