// SPDX-License-Identifier: BSD-3-Clause
#include "nearest_nic.h"

#include "cli/topo/server.h"
#include "os/format.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace gaudi::cli::bench {

OrSentence<std::string> find_nearest_nic(const doctor::Facts &facts, const std::string &card_bus_id) {
    if (facts.nics.empty())
        return Sentence(facts.why_no_verbs.empty() ? "there is no RDMA device" : facts.why_no_verbs);
    const topo::Server server = topo::make_server(facts);
    const auto card = static_cast<std::size_t>(std::ranges::find(server.devices, card_bus_id, &topo::Device::bus_id) -
                                               server.devices.begin());
    const doctor::NicFacts *nearest = nullptr;
    topo::Relation best = topo::Relation::unknown;
    std::vector<std::string> others;
    for (const std::string &port : server.ports)
        others.push_back(os::format("{} is a port of a card", port));
    for (std::size_t i = server.cards; i < server.devices.size(); ++i) {
        const doctor::NicFacts &nic = *server.devices[i].nic;
        if (!nic.active || nic.dmabuf_errno != EBADF) { // what the probe gets where dma-bufs are registered
            others.push_back(
                os::format("{} {}", nic.name, nic.active ? "does not register dma-bufs" : "has no active port"));
            continue;
        }
        const topo::Relation relation = card < server.cards ? server.relations[card][i] : topo::Relation::unknown;
        if (!nearest || relation < best) {
            nearest = &nic;
            best = relation;
        }
    }
    if (!nearest)
        return Sentence(os::join(others, ", "));
    return nearest->name;
}

} // namespace gaudi::cli::bench
