// SPDX-License-Identifier: BSD-3-Clause
#include "usable_ucx.h"

#include "os/format.h"
#include "ucx_probe.h"

#include <fstream>
#include <iterator>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// Whether the text of a libucs shows that it loads the modules: it knows the setting, and has no statistics. To load it in
/// order to ask takes hundreds of times as long.
bool loads_modules(const fs::path &libucs) {
    std::ifstream file(libucs, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.find("PLUGIN_PATH") != std::string::npos && text.find("ucs_stats_node_alloc") == std::string::npos;
}

OrSentence<void> check_usable(const Ucx &ucx, const std::string &name) {
    std::error_code error;
    if (!fs::exists(ucx.libucp, error))
        return Sentence(os::format("--ucx {}: there is no libucp beside {}; use a whole UCX of 1.22 or later", name,
                                   ucx.libucs.string()));
    if (loads_modules(ucx.libucs))
        return {};
    const auto probed = UcxProbe(ucx.libucp.string()).read_answer();
    if (!probed)
        return Sentence(os::format("--ucx {}: {} does not load: {}; use a UCX that runs on this machine", name,
                                   ucx.libucp.string(), probed.error()));
    const std::string why = explain_unusable(*probed);
    if (!why.empty())
        return Sentence(os::format("--ucx {}: UCX {} in {} {}", name, probed->version, ucx.libraries.string(), why));
    return {};
}

} // namespace

OrSentence<Ucx> resolve_usable_ucx(const std::string &name) {
    auto ucx = resolve_ucx(name);
    if (!ucx)
        return ucx;
    if (const auto usable = check_usable(*ucx, name); !usable)
        return Sentence(usable.error());
    return ucx;
}

} // namespace gaudi::cli
