// SPDX-License-Identifier: BSD-3-Clause
#include "collect.h"

namespace gaudi::cli::doctor {

Facts collect(const Machine &machine) {
    Facts facts;
    facts.version = UCX_GAUDI_VERSION;
    collect_ucx(machine, facts); // first, because it forks: no library of a vendor is loaded yet
    collect_kernel(machine, facts.kernel);
    collect_process(machine, facts.process);
    collect_driver(machine, facts.driver);
    facts.nodes = collect_nodes(machine);
    facts.pci_cards = collect_pci_cards(machine);
    collect_cards(machine, facts);
    collect_nics(facts);
    collect_nic_places(machine, facts.nics);
    return facts;
}

} // namespace gaudi::cli::doctor
