// SPDX-License-Identifier: BSD-3-Clause
#include "chosen_ucx.h"

#include "cli/doctor/collect.h"
#include "cli/ib_module.h"
#include "cli/usable_ucx.h"
#include "os/format.h"

#include <algorithm>
#include <optional>

namespace gaudi::cli::explain {
namespace {

namespace fs = std::filesystem;
using doctor::Facts;
using doctor::Machine;
using doctor::UcxFacts;

bool is_default(const UcxFacts &ucx) { return ucx.source == "loader" || ucx.source == "LD_LIBRARY_PATH"; }

/// The files of a UCX that was found by its libucs.
std::optional<Ucx> find_files(const UcxFacts &facts) {
    const std::vector<Ucx> inside = find_ucx_in(fs::path(facts.libucs).parent_path());
    return inside.empty() ? std::nullopt : std::optional(inside.front());
}

OrSentence<ChosenUcx> choose_by_name(const Machine &machine, const std::string &name) {
    auto ucx = resolve_usable_ucx(name);
    if (!ucx)
        return Sentence(ucx.error());
    ChosenUcx chosen;
    UcxFacts facts;
    facts.source = "explain"; // not one that only `ucx_gaudi run` uses: all checks are to count
    facts.libucs = ucx->libucs.string();
    facts.files = doctor::collect_module_files(machine, ucx->libucs, doctor::collect_settings(machine, ucx->libraries));
    chosen.facts.ucx = {facts};
    chosen.ucx = std::move(*ucx);
    chosen.source = os::format("--ucx {}", name);
    return chosen;
}

OrSentence<ChosenUcx> choose_first(const Machine &machine) {
    ChosenUcx chosen;
    doctor::collect_ucx(machine, chosen.facts);
    const UcxFacts *best = nullptr;
    bool best_has_ib = false;
    for (const UcxFacts &facts : chosen.facts.ucx) {
        const auto files = facts.why_unusable.empty() ? find_files(facts) : std::nullopt;
        if (!files)
            continue;
        const bool has_ib = check_ib_module(*files, facts.source).has_value();
        if (!best || (!is_default(*best) && has_ib && !best_has_ib)) {
            best = &facts;
            best_has_ib = has_ib;
            chosen.ucx = *files;
        }
    }
    if (!best)
        return Sentence(
            "no UCX of 1.22 or later was found; install one, for example by pip install --no-deps nixl-cu12, "
            "or name it with --ucx");
    chosen.source = best->source;
    UcxFacts only = *best;
    only.source = "explain";
    chosen.facts.ucx = {only};
    return chosen;
}

} // namespace

OrSentence<ChosenUcx> choose_ucx(const std::string &name) {
    const Machine machine = Machine::here();
    auto chosen = name.empty() ? choose_first(machine) : choose_by_name(machine, name);
    if (!chosen)
        return chosen;
    chosen->has_ib_module = check_ib_module(chosen->ucx, chosen->source).has_value();
    doctor::collect_machine(machine, chosen->ucx.libraries, chosen->facts);
    return chosen;
}

} // namespace gaudi::cli::explain
