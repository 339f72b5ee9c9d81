// SPDX-License-Identifier: BSD-3-Clause
// The server as `ucx_gaudi topo` shows it: made of facts alone, so that a file of `ucx_gaudi dump` serves as well.
#pragma once

#include "cli/doctor/facts.h"
#include "relation.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli::topo {

/// A card or a NIC.
struct Device {
    std::string name;                  // as UCX calls it, GAUDI_3; 19:00.0 for a card that libhl-thunk does not show
    std::optional<std::uint64_t> card; // its number
    bool is_card = false;
    std::string bus_id; // also known where the place is not
    Place place;
    std::string cpus; // near ones; empty: not known
    std::uint64_t link_mt_per_s = 0, link_lanes = 0;
    const doctor::NicFacts *nic = nullptr; // of a NIC
};

/// The NICs that UCX chooses for the memory of a card, best first.
struct ChosenNics {
    std::vector<std::string> rendezvous, put_get;
    bool known = true;
    std::string why_none; // set if there is none, or it is not known
};

struct Server {
    std::vector<Device> devices; // cards by number, then NICs as libibverbs lists them
    std::size_t cards = 0;       // how many of them are cards
    std::vector<std::vector<Relation>> relations;
    std::vector<std::string> ports;    // RDMA devices that are the cards' own ports, and no NICs
    std::vector<ChosenNics> chosen;    // of each card
    std::vector<std::string> warnings; // a sentence each

    /// The NICs nearest to a card, and how near they are; none if no place is known.
    std::pair<Relation, std::vector<std::string>> nearest_nics(std::size_t card) const;
};

/// The facts must outlive the server.
Server make_server(const doctor::Facts &facts);

/// Which NICs UCX takes for a card, by its settings, its distances and the state of the NICs.
ChosenNics choose_nics(const doctor::Facts &facts, const Server &server, const Device &card);

/// Sentences about distances that sysfs and UCX see differently.
std::vector<std::string> compare_distances(const doctor::Facts &facts, const Server &server);

/// UCX's distance of a card from a NIC; null if it is not known.
const doctor::DistanceFacts *find_distance(const doctor::Facts &facts, const Device &card, const Device &nic);

} // namespace gaudi::cli::topo
