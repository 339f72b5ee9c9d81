// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include "os/format.h"

#include <algorithm>
#include <set>

namespace gaudi::cli::topo {
namespace {

using namespace doctor;

/// The near processors: those of the function itself, else those of its NUMA node.
std::string find_cpus(const TopologyFacts &topology, const Place &place) {
    const auto device = std::ranges::find(topology.devices, place.bus_id, &PciDeviceFacts::bus_id);
    if (device != topology.devices.end() && !device->cpus.empty())
        return device->cpus;
    const auto node = std::ranges::find(topology.numa_nodes, place.numa_node, &NumaNodeFacts::node);
    return node == topology.numa_nodes.end() ? "" : node->cpus;
}

void fill_in_place(const TopologyFacts &topology, Device &device) {
    if (device.place.bus_id.empty())
        return;
    device.cpus = find_cpus(topology, device.place);
    const auto found = std::ranges::find(topology.devices, device.place.bus_id, &PciDeviceFacts::bus_id);
    if (found == topology.devices.end())
        return;
    device.link_mt_per_s = found->link_mt_per_s;
    device.link_lanes = found->link_lanes;
}

Place place_of(const PciCardFacts &card) {
    Place place{card.bus_id, {}, card.numa_node};
    for (const BridgeFacts &bridge : card.bridges)
        place.bridges.push_back(bridge.bus_id);
    return place;
}

/// The cards of libhl-thunk by number, then those that only PCI shows.
void add_cards(const Facts &facts, Server &server) {
    for (const CardFacts &card : facts.cards) {
        Device device;
        device.name = os::format("GAUDI_{}", card.module_id);
        device.card = card.module_id;
        device.is_card = true;
        device.bus_id = card.bus_id;
        const auto pci = std::ranges::find(facts.pci_cards, card.bus_id, &PciCardFacts::bus_id);
        if (pci != facts.pci_cards.end())
            device.place = place_of(*pci);
        server.devices.push_back(std::move(device));
    }
    std::ranges::stable_sort(server.devices, {}, &Device::card);
    for (const PciCardFacts &card : facts.pci_cards) {
        if (std::ranges::find(facts.cards, card.bus_id, &CardFacts::bus_id) != facts.cards.end())
            continue;
        Device device;
        device.bus_id = card.bus_id;
        device.name = card.bus_id.starts_with("0000:") ? card.bus_id.substr(5) : card.bus_id; // as lspci prints it
        device.is_card = true;
        device.place = place_of(card);
        server.devices.push_back(std::move(device));
    }
    server.cards = server.devices.size();
}

/// The NICs, without the ports of the cards: those have the bus ids of cards.
void add_nics(const Facts &facts, Server &server) {
    for (const NicFacts &nic : facts.nics) {
        const bool is_port = !nic.bus_id.empty() && std::ranges::find(facts.pci_cards, nic.bus_id,
                                                                      &PciCardFacts::bus_id) != facts.pci_cards.end();
        if (is_port || nic.name.starts_with("hbl_")) {
            server.ports.push_back(nic.name);
            continue;
        }
        Device device;
        device.name = nic.name;
        device.bus_id = nic.bus_id;
        device.place = {nic.bus_id, nic.bridges, nic.numa_node};
        device.nic = &nic;
        server.devices.push_back(std::move(device));
    }
}

/// Whether neither the machine nor a device knows a second NUMA node.
bool has_one_node(const Facts &facts, const Server &server) {
    std::set<std::int64_t> nodes;
    for (const NumaNodeFacts &node : facts.topology.numa_nodes)
        nodes.insert(node.node);
    for (const Device &device : server.devices)
        if (device.place.numa_node >= 0)
            nodes.insert(device.place.numa_node);
    return nodes.size() == 1;
}

} // namespace

std::pair<Relation, std::vector<std::string>> Server::nearest_nics(std::size_t card) const {
    Relation best = Relation::unknown;
    std::vector<std::string> names;
    for (std::size_t nic = cards; nic < devices.size(); ++nic) {
        const Relation relation = relations[card][nic];
        if (relation < best) {
            best = relation;
            names.clear();
        }
        if (relation == best && relation != Relation::unknown)
            names.push_back(devices[nic].name);
    }
    return {best, names};
}

const DistanceFacts *find_distance(const Facts &facts, const Device &card, const Device &nic) {
    const auto &distances = facts.topology.ucx.distances;
    const auto found = std::ranges::find_if(distances, [&](const DistanceFacts &distance) {
        return distance.card == card.place.bus_id && distance.nic == nic.place.bus_id;
    });
    return found == distances.end() ? nullptr : &*found;
}

Server make_server(const Facts &facts) {
    Server server;
    add_cards(facts, server);
    add_nics(facts, server);
    for (Device &device : server.devices)
        fill_in_place(facts.topology, device);
    const bool one_node = has_one_node(facts, server);
    for (const Device &row : server.devices) {
        auto &relations = server.relations.emplace_back();
        for (const Device &column : server.devices)
            relations.push_back(&row == &column ? Relation::self : relation_of(row.place, column.place, one_node));
    }
    for (std::size_t card = 0; card < server.cards; ++card)
        server.chosen.push_back(choose_nics(facts, server, server.devices[card]));
    server.warnings = compare_distances(facts, server);
    return server;
}

} // namespace gaudi::cli::topo
