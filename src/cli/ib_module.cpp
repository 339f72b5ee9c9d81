// SPDX-License-Identifier: BSD-3-Clause
#include "ib_module.h"

#include "os/format.h"
#include "path_list.h"

#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

struct Modules {
    bool any = false;
    bool ib = false;
};

/// The ib module is libuct_ib.so.0 or libuct_ib-<suffix>.so.0; libuct_ib_mlx5.so.0 is one that the ib module loads.
bool is_ib(std::string_view file) { return file.starts_with("libuct_ib.") || file.starts_with("libuct_ib-"); }

Modules modules_in(const fs::path &directory) {
    Modules found;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
        const std::string file = at->path().filename().string();
        if (!file.starts_with("libuct_") || file.find(".so") == std::string::npos)
            continue;
        found.any = true;
        found.ib = found.ib || is_ib(file);
    }
    return found;
}

std::vector<std::string> list_fetched_with_ib() {
    std::vector<std::string> names;
    for (const FetchedUcx &build : list_fetched_ucx())
        if (has_ib_module(build.ucx).value_or(false))
            names.push_back(build.name);
    return names;
}

} // namespace

std::optional<bool> has_ib_module(const Ucx &ucx) {
    const Modules beside = modules_in(ucx.libraries / "ucx");
    if (beside.ib)
        return true;
    for (const char *variable : {"UCX_PLUGIN_PATH", "UCX_MODULE_DIR"})
        for (const fs::path &directory : read_path_list(variable))
            if (modules_in(directory).ib)
                return true;
    return beside.any ? std::optional(false) : std::nullopt;
}

OrSentence<void> check_ib_module(const Ucx &ucx, const std::string &name) {
    if (has_ib_module(ucx).value_or(true))
        return {};
    const std::vector<std::string> others = list_fetched_with_ib();
    return Sentence(os::format("--hca: the UCX of --ucx {} cannot use an HCA: there is no libuct_ib in {}{}", name,
                               (ucx.libraries / "ucx").string(),
                               others.empty() ? "" : os::format("; use --ucx {}", os::join(others, " or --ucx "))));
}

} // namespace gaudi::cli
