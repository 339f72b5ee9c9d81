// SPDX-License-Identifier: BSD-3-Clause
// UCX and our modules in it.
#include "check.h"
#include "os/format.h"

#include <algorithm>
#include <array>
#include <set>

namespace gaudi::cli::doctor {
namespace {

constexpr const char *kInstall = "pip install libucx-cu13, or a UCX of 1.22 or later from your distribution";

bool is_usable(const UcxFacts &ucx) { return ucx.why_unusable.empty(); }
bool is_default(const UcxFacts &ucx) { return ucx.source == "loader" || ucx.source == "LD_LIBRARY_PATH"; }
bool loads_us(const UcxFacts &ucx) {
    return std::ranges::any_of(ucx.files, [](const ModuleFileFacts &file) { return file.why_skipped.empty(); });
}

Outcome judge_usable(const Facts &facts) {
    if (facts.ucx.empty())
        return fail("no UCX was found", kInstall);
    std::vector<std::string> usable;
    for (const UcxFacts &ucx : facts.ucx)
        if (is_usable(ucx))
            usable.push_back(os::format("{} ({})", ucx.version, ucx.source));
    if (usable.empty())
        return fail(os::format("no UCX here takes the modules; {} {}", facts.ucx.front().libucs,
                               facts.ucx.front().why_unusable),
                    kInstall);
    return ok(os::format("usable UCX: {}", os::join(usable, ", ")));
}

Outcome judge_default(const Facts &facts) {
    const auto found = std::ranges::find_if(facts.ucx, is_default);
    if (found == facts.ucx.end())
        return skip("the loader finds no libucp.so.0: programs bring their own UCX");
    if (is_usable(*found))
        return ok(os::format("programs that are linked to UCX get {} ({})", found->version, found->libucs));
    return warn(os::format("programs that are linked to UCX get {}, which {}", found->libucs, found->why_unusable),
                "put the directory of a usable UCX first in LD_LIBRARY_PATH");
}

Outcome judge_several(const Facts &facts) {
    std::set<std::string> versions;
    for (const UcxFacts &ucx : facts.ucx)
        if (!ucx.source.starts_with("--ucx")) // those that only `ucx_gaudi run` uses
            versions.insert(
                os::format("{} in {}", ucx.version.empty() ? "one that does not load" : ucx.version, ucx.libucs));
    if (versions.size() < 2)
        return ok("one UCX is in reach of programs");
    return warn(
        os::format("{} UCX are in reach of programs: {}; two of them in one process (MPI beside NIXL) each have "
                   "transports and caches of their own",
                   versions.size(), os::join(versions, ", ")),
        "grep libucs /proc/PID/maps shows which of them a process has");
}

Outcome judge_modules(const Facts &facts) {
    if (facts.module_directory.empty())
        return fail("the modules of ucx-gaudi are not beside this program", "install ucx-gaudi-plugin");
    if (facts.missing_modules.empty())
        return ok(os::format("the modules are in {}", facts.module_directory));
    return fail(os::format("{} lacks {}: the modules do not load", facts.module_directory,
                           os::join(facts.missing_modules, ", ")),
                "install ucx-gaudi-plugin again");
}

Outcome judge_enabled(const Facts &facts) {
    const SettingFacts *path = facts.setting("UCX_PLUGIN_PATH");
    std::vector<std::string> without;
    bool any = false;
    for (const UcxFacts &ucx : facts.ucx) {
        if (!is_usable(ucx) || ucx.source.starts_with("--ucx"))
            continue;
        any = true;
        if (!loads_us(ucx))
            without.push_back(ucx.libucs);
    }
    if (!any)
        return skip("no usable UCX is in reach of programs");
    if (without.empty())
        return ok(path ? os::format("UCX loads the modules: UCX_PLUGIN_PATH={} ({})", path->value, path->source)
                       : "UCX loads the modules from its own directory");
    return fail(os::format("{} does not load the modules: {}", os::join(without, ", "),
                           path ? os::format("UCX_PLUGIN_PATH={} ({}) has none for it", path->value, path->source)
                                : "UCX_PLUGIN_PATH is not set"),
                "ucx_gaudi enable, or export UCX_PLUGIN_PATH=$(ucx_gaudi plugin-path)");
}

Outcome judge_skipped(const Facts &facts) {
    std::set<std::string> skipped;
    for (const UcxFacts &ucx : facts.ucx)
        if (is_usable(ucx) && !loads_us(ucx))
            for (const ModuleFileFacts &file : ucx.files)
                skipped.insert(os::format("{}: {}", file.path, file.why_skipped));
    if (skipped.empty())
        return ok("no UCX skips all files of our modules");
    return warn(os::format("UCX skips {}", os::join(skipped, "; ")), "export UCX_PLUGIN_PATH=$(ucx_gaudi plugin-path)");
}

Outcome judge_load_errors(const Facts &facts) {
    std::vector<std::string> errors;
    bool any = false;
    for (const UcxFacts &ucx : facts.ucx) {
        any = any || (is_usable(ucx) && loads_us(ucx));
        if (!ucx.load_error.empty())
            errors.push_back(os::format("{} (in UCX {})", ucx.load_error, ucx.version));
    }
    if (!errors.empty())
        return fail(os::format("a module does not load: {}", os::join(errors, "; ")), "install ucx-gaudi-plugin again");
    return any ? ok("the modules load") : skip("no UCX loads the modules");
}

constexpr std::array kChecks = {
    Check{"GD040", "usable UCX", judge_usable},
    Check{"GD041", "UCX of linked programs", judge_default},
    Check{"GD042", "several UCX", judge_several},
    Check{"GD043", "files of the modules", judge_modules},
    Check{"GD044", "plug-in path", judge_enabled},
    Check{"GD045", "skipped files", judge_skipped},
    Check{"GD046", "errors of the loader", judge_load_errors},
};

} // namespace

std::span<const Check> ucx_checks() { return kChecks; }

} // namespace gaudi::cli::doctor
