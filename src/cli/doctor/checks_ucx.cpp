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
    std::vector<std::string> without;
    const UcxFacts *with = nullptr;
    for (const UcxFacts &ucx : facts.ucx) {
        if (!is_usable(ucx) || ucx.source.starts_with("--ucx"))
            continue;
        const std::string path = ucx.plugin_path_source.empty() ? "UCX_PLUGIN_PATH is not set"
                                                                : os::format("UCX_PLUGIN_PATH={} ({}) has none for it",
                                                                             ucx.plugin_path, ucx.plugin_path_source);
        if (loads_us(ucx))
            with = &ucx;
        else
            without.push_back(os::format("{} does not load the modules: {}", ucx.libucs, path));
    }
    if (!without.empty())
        return fail(os::join(without, "; "), "ucx_gaudi enable, or export UCX_PLUGIN_PATH=$(ucx_gaudi plugin-path)");
    if (!with)
        return skip("no usable UCX is in reach of programs");
    return ok(with->plugin_path_source.empty() ? "UCX loads the modules from its own directory"
                                               : os::format("UCX loads the modules: UCX_PLUGIN_PATH={} ({})",
                                                            with->plugin_path, with->plugin_path_source));
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

/// The processes that hold cards are those that run now with a UCX.
Outcome judge_processes(const Facts &facts) {
    std::set<std::string> several, without, fine;
    for (const CardFacts &card : facts.cards) {
        for (const HolderFacts &holder : card.holders) {
            if (!holder.libucs || holder.libucs->empty())
                continue;
            const std::string name = os::format("pid {} ({})", holder.pid, holder.command);
            if (holder.libucs->size() > 1)
                several.insert(os::format("{} has {}", name, os::join(*holder.libucs, " and ")));
            else if (!holder.has_modules)
                without.insert(os::format("{} has {} without the module gaudi", name, holder.libucs->front()));
            else
                fine.insert(name);
        }
    }
    if (!several.empty())
        return warn(os::format("two UCX in one process do not share transports, caches or memory hooks: {}",
                               os::join(several, "; ")),
                    "let its libraries use one UCX: put it first in LD_LIBRARY_PATH, or load NIXL's before the other");
    if (!without.empty())
        return warn(
            os::format("a process that holds a card moves its memory without ucx-gaudi: {}", os::join(without, "; ")),
            "start it again after ucx_gaudi enable, or with UCX_PLUGIN_PATH=$(ucx_gaudi plugin-path)");
    if (fine.empty())
        return skip("no process that this user sees holds a card and has UCX loaded");
    return ok(os::format("one UCX with the module gaudi in each process that holds a card: {}", os::join(fine, ", ")));
}

constexpr std::array kChecks = {
    Check{"GD040", "usable UCX", judge_usable},
    Check{"GD041", "UCX of linked programs", judge_default},
    Check{"GD042", "several UCX", judge_several},
    Check{"GD043", "files of the modules", judge_modules},
    Check{"GD044", "plug-in path", judge_enabled},
    Check{"GD045", "skipped files", judge_skipped},
    Check{"GD046", "errors of the loader", judge_load_errors},
    Check{"GD047", "UCX in the processes that hold cards", judge_processes},
};

} // namespace

std::span<const Check> ucx_checks() { return kChecks; }

} // namespace gaudi::cli::doctor
