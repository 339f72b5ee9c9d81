// SPDX-License-Identifier: BSD-3-Clause
// Where UCX's distances contradict PCIe. UCX's figures depend on its version and settings, so only their order is compared.
#include "os/format.h"
#include "server.h"

#include <algorithm>
#include <limits>
#include <set>

namespace gaudi::cli::topo {
namespace {

using namespace doctor;

/// A NIC as sysfs and UCX see it from a card.
struct Seen {
    const Device *nic;
    Relation relation;
    const DistanceFacts *distance;

    /// UCX knows only whether there is a host bridge between two functions, not how many switches.
    Relation distinguished() const { return std::max(relation, Relation::pxb); }
    /// As UCX orders distances: by latency, then by bandwidth.
    std::pair<double, double> order() const {
        const auto &bandwidth = distance->bandwidth_bytes_per_s;
        return {static_cast<double>(distance->latency_ns),
                bandwidth ? -static_cast<double>(*bandwidth) : -std::numeric_limits<double>::infinity()};
    }
};

std::vector<Seen> list_seen(const Facts &facts, const Server &server, std::size_t card) {
    std::vector<Seen> seen;
    for (std::size_t nic = server.cards; nic < server.devices.size(); ++nic) {
        const Relation relation = server.relations[card][nic];
        const DistanceFacts *distance = find_distance(facts, server.devices[card], server.devices[nic]);
        if (relation != Relation::unknown && distance)
            seen.push_back({&server.devices[nic], relation, distance});
    }
    return seen;
}

bool differ(const Seen &first, const Seen &second) {
    if (first.distinguished() == second.distinguished()) {
        // Within a root complex UCX counts the bridges, so that equal words may have unequal distances.
        return first.relation != Relation::phb && first.order() != second.order();
    }
    return (first.distinguished() < second.distinguished()) != (first.order() < second.order()) ||
           first.order() == second.order();
}

std::string describe(const DistanceFacts &distance) {
    if (!distance.bandwidth_bytes_per_s)
        return os::format("{} ns", distance.latency_ns);
    return os::format("{} ns and {} MB/s", distance.latency_ns, *distance.bandwidth_bytes_per_s / 1000000);
}

/// The settings that make UCX's distances what they are, to follow a sentence.
std::string list_causes(const Facts &facts) {
    std::vector<std::string> causes;
    for (const char *name : {"UCX_TOPO_PRIO", "UCX_DISTANCE_LAT", "UCX_DISTANCE_BW"})
        if (const SettingFacts *setting = facts.setting(name))
            causes.push_back(os::format("{}={} ({})", name, setting->value, setting->source));
    return causes.empty() ? "" : os::format("; {} is set", os::join(causes, ", "));
}

} // namespace

std::vector<std::string> compare_distances(const Facts &facts, const Server &server) {
    std::vector<std::string> warnings;
    std::set<std::pair<double, double>> orders;
    std::vector<std::string> different; // cards
    for (std::size_t card = 0; card < server.cards; ++card) {
        const std::vector<Seen> seen = list_seen(facts, server, card);
        std::vector<std::string> parts;
        for (const Seen &one : seen) {
            orders.insert(one.order());
            if (std::ranges::any_of(seen, [&](const Seen &other) { return differ(one, other); }))
                parts.push_back(
                    os::format("{} {} and {}", one.nic->name, name_of(one.relation), describe(*one.distance)));
        }
        if (parts.empty())
            continue;
        different.push_back(server.devices[card].name);
        warnings.push_back(os::format("PCIe and UCX differ about the NICs of {}: {}{}", server.devices[card].name,
                                      os::join(parts, ", "), list_causes(facts)));
    }
    if (!different.empty() && orders.size() == 1)
        return {
            os::format("UCX takes all NICs to be equally near to {}, PCIe does not: UCX does not choose the nearest{}",
                       os::join(different, ", "), list_causes(facts))};
    return warnings;
}

} // namespace gaudi::cli::topo
