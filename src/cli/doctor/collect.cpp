// SPDX-License-Identifier: BSD-3-Clause
#include "collect.h"

#include "cli/ib_module.h"
#include "os/format.h"
#include "ucx_view.h"

#include <algorithm>
#include <optional>

namespace gaudi::cli::doctor {
namespace {

/// The UCX with this libucs.
std::optional<Ucx> find_ucx_of(const std::string &libucs) {
    const std::filesystem::path libraries = std::filesystem::path(libucs).parent_path();
    for (Ucx &ucx : find_ucx_in(libraries))
        if (ucx.libraries == libraries)
            return std::move(ucx);
    return {};
}

/// Cards and NICs that UCX gives distances of.
std::vector<std::pair<std::string, std::string>> list_pairs(const Facts &facts) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const PciCardFacts &card : facts.pci_cards)
        for (const NicFacts &nic : facts.nics)
            if (!nic.bus_id.empty() && nic.bus_id != card.bus_id)
                pairs.emplace_back(card.bus_id, nic.bus_id);
    return pairs;
}

/// Prepares the view of the first usable UCX; the libucp to load is empty if there is none.
std::string choose_ucx(const Facts &facts, UcxViewFacts &view) {
    const auto usable = std::ranges::find_if(facts.ucx, [](const UcxFacts &ucx) { return ucx.why_unusable.empty(); });
    if (usable == facts.ucx.end()) {
        view.why_unknown = "no usable UCX is in reach";
        return {};
    }
    view.source = usable->source;
    view.version = usable->version;
    const auto ucx = find_ucx_of(usable->libucs);
    if (!ucx || ucx->libucp.empty()) {
        view.why_unknown = os::format("there is no libucp beside {}", usable->libucs);
        return {};
    }
    view.has_ib = has_ib_module(*ucx);
    return ucx->libucp.string();
}

void collect_rest(const Machine &machine, Facts &facts) {
    collect_kernel(machine, facts.kernel);
    collect_process(machine, facts.process);
    collect_driver(machine, facts.driver);
    facts.nodes = collect_nodes(machine);
    facts.pci_cards = collect_pci_cards(machine);
    collect_cards(machine, facts);
    collect_holder_ucx(machine, facts.cards);
    collect_nics(facts);
    collect_nic_places(machine, facts.nics);
    facts.topology.numa_nodes = collect_numa_nodes(machine);
    facts.topology.devices = collect_pci_devices(machine, facts);
}

} // namespace

Facts collect(const Machine &machine) {
    Facts facts;
    facts.version = UCX_GAUDI_VERSION;
    collect_ucx(machine, facts); // first, because it forks: no library of a vendor is loaded yet
    UcxViewFacts &view = facts.topology.ucx;
    UcxView ucx(choose_ucx(facts, view)); // forks, too
    collect_rest(machine, facts);
    if (view.why_unknown.empty())
        ucx.ask(list_pairs(facts), view);
    return facts;
}

void collect_machine(const Machine &machine, const std::filesystem::path &ucx_libraries, Facts &facts) {
    facts.version = UCX_GAUDI_VERSION;
    collect_modules(machine, facts);
    facts.settings = collect_settings(machine, ucx_libraries);
    collect_rest(machine, facts);
}

} // namespace gaudi::cli::doctor
