// SPDX-License-Identifier: BSD-3-Clause
#include "ib_module.h"

#include "path_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

struct Modules {
    bool any = false;
    bool ib = false;
};

/// libuct_ib.so.0 and libuct_ib-<suffix>.so.0 are the ib module; libuct_ib_mlx5.so.0 is one that only the ib module loads.
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

std::vector<std::string> engines_with_ib() {
    std::vector<std::string> names;
    for (const Engine &engine : engines())
        if (has_ib_module(engine.ucx).value_or(false))
            names.push_back(engine.name);
    return names;
}

} // namespace

std::optional<bool> has_ib_module(const Ucx &ucx) {
    const Modules beside = modules_in(ucx.libraries / "ucx");
    if (beside.ib)
        return true;
    for (const char *variable : {"UCX_PLUGIN_PATH", "UCX_MODULE_DIR"})
        for (const fs::path &directory : listed(variable))
            if (modules_in(directory).ib)
                return true;
    return beside.any ? std::optional(false) : std::nullopt;
}

OrSentence<void> check_ib_module(const Ucx &ucx, const std::string &name) {
    if (has_ib_module(ucx).value_or(true))
        return {};
    const std::vector<std::string> others = engines_with_ib();
    return Sentence(
        fmt::format("--hca: the UCX of --ucx {} cannot use an HCA: there is no libuct_ib in {}{}", name,
                    (ucx.libraries / "ucx").string(),
                    others.empty() ? "" : fmt::format("; --ucx {} has it", fmt::join(others, " or --ucx "))));
}

} // namespace gaudi::cli
