// SPDX-License-Identifier: BSD-3-Clause
#include "show.h"

#include <nlohmann/json.hpp>

namespace gaudi::cli::topo {
namespace {

using namespace doctor;
using Json = nlohmann::ordered_json; // keeps the order for readers

template <class T>
Json or_null(const std::optional<T> &value) {
    return value ? Json(*value) : Json();
}

Json or_null(const std::string &text) { return text.empty() ? Json() : Json(text); }

/// A number of sysfs that is 0 where it is not shown.
Json or_null(std::uint64_t value) { return value == 0 ? Json() : Json(value); }

Json describe(const Device &device) {
    const Place &place = device.place;
    return {{"name", device.name},
            {"kind", device.is_card ? "card" : "nic"},
            {"card", or_null(device.card)},
            {"bus_id", or_null(device.bus_id)},
            {"root_complex", or_null(root_complex_of(place))},
            {"bridges", place.bridges},
            {"numa_node", place.numa_node < 0 ? Json() : Json(place.numa_node)},
            {"cpus", or_null(device.cpus)},
            {"link_mt_per_s", or_null(device.link_mt_per_s)},
            {"link_lanes", or_null(device.link_lanes)},
            {"active", device.nic ? Json(device.nic->active) : Json()},
            {"rate_gbit_per_s", device.nic ? or_null(device.nic->rate_gbit_per_s) : Json()}};
}

Json describe_relations(const Server &server) {
    Json rows = Json::array();
    for (const auto &relations : server.relations) {
        Json row = Json::array();
        for (const Relation relation : relations)
            row.push_back(relation == Relation::unknown ? Json() : Json(name_of(relation)));
        rows.push_back(std::move(row));
    }
    return rows;
}

Json describe_card(const Server &server, std::size_t card) {
    const auto [relation, nearest] = server.nearest_nics(card);
    const ChosenNics &chosen = server.chosen[card];
    return {{"name", server.devices[card].name},
            {"card", or_null(server.devices[card].card)},
            {"nearest_nics", nearest},
            {"nearest_relation", nearest.empty() ? Json() : Json(name_of(relation))},
            {"ucx_rendezvous_nics", chosen.rendezvous},
            {"ucx_put_get_nics", chosen.put_get},
            {"ucx_nics_known", chosen.known},
            {"ucx_why_no_nic", or_null(chosen.why_none)}};
}

Json describe_ucx(const UcxViewFacts &ucx) {
    Json distances = Json::array();
    for (const DistanceFacts &distance : ucx.distances)
        distances.push_back({{"card_bus_id", distance.card},
                             {"nic_bus_id", distance.nic},
                             {"latency_ns", distance.latency_ns},
                             {"bandwidth_bytes_per_s", or_null(distance.bandwidth_bytes_per_s)}});
    Json settings = Json::object();
    for (const auto &[name, value] : ucx.settings)
        settings[name] = value;
    return {{"source", or_null(ucx.source)},
            {"version", or_null(ucx.version)},
            {"why_unknown", or_null(ucx.why_unknown)},
            {"settings", settings},
            {"distances", distances}};
}

} // namespace

std::string format_json(const Facts &facts, const Server &server) {
    Json out = {{"schema", 1}, {"version", facts.version}, {"software", facts.thunk.software}};
    out["devices"] = Json::array();
    for (const Device &device : server.devices)
        out["devices"].push_back(describe(device));
    out["relations"] = describe_relations(server);
    out["card_ports"] = server.ports;
    out["cards"] = Json::array();
    for (std::size_t card = 0; card < server.cards; ++card)
        out["cards"].push_back(describe_card(server, card));
    out["ucx"] = describe_ucx(facts.topology.ucx);
    out["warnings"] = server.warnings;
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gaudi::cli::topo
