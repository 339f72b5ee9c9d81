// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "show.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gaudi::cli::topo {
namespace {

using namespace doctor;
using Row = std::vector<std::string>;

/// Columns as wide as their longest cell; without blanks at the ends of lines.
std::string format_table(const std::vector<Row> &rows) {
    std::vector<std::size_t> widths;
    for (const Row &row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths.resize(std::max(widths.size(), i + 1));
            widths[i] = std::max(widths[i], row[i].size());
        }
    std::string text;
    for (const Row &row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += os::format("{:<{}}  ", row[i], widths[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        text += os::format("{}\n", line);
    }
    return text;
}

std::string or_dash(const std::string &text) { return text.empty() ? "-" : text; }

std::string format_matrix(const Server &server) {
    std::vector<Row> rows(1, Row{""});
    for (const Device &device : server.devices)
        rows.front().push_back(device.name);
    rows.front().insert(rows.front().end(), {"CPU affinity", "NUMA affinity"});
    for (std::size_t i = 0; i < server.devices.size(); ++i) {
        const Device &device = server.devices[i];
        Row row{device.name};
        for (const Relation relation : server.relations[i])
            row.emplace_back(name_of(relation));
        row.push_back(or_dash(device.cpus));
        row.push_back(device.place.numa_node < 0 ? "-" : std::to_string(device.place.numa_node));
        rows.push_back(std::move(row));
    }
    return format_table(rows);
}

std::string format_legend(const Server &server) {
    std::vector<Row> rows = {{"  X", "the device itself"},
                             {"  PIX", "one PCIe switch between the two"},
                             {"  PXB", "several PCIe switches, but no host bridge"},
                             {"  PHB", "the host bridge of one root complex"},
                             {"  NODE", "host bridges of one NUMA node"},
                             {"  SYS", "the link between NUMA nodes, as between two sockets"}};
    const bool unknown = std::ranges::any_of(
        server.relations, [](const auto &row) { return std::ranges::count(row, Relation::unknown) > 0; });
    if (unknown)
        rows.push_back({"  ?", "not known: sysfs shows no place on PCIe, or no NUMA node"});
    return format_table(rows);
}

/// UCX's distance as in "300 ns, 17825 MB/s".
std::string describe(const DistanceFacts *distance) {
    if (!distance)
        return "-";
    const auto &bandwidth = distance->bandwidth_bytes_per_s;
    if (!bandwidth && distance->latency_ns == 0)
        return "near";
    return os::format("{} ns, {}", distance->latency_ns,
                      bandwidth ? os::format("{} MB/s", *bandwidth / 1000000) : "unlimited");
}

std::string format_distances(const Facts &facts, const Server &server) {
    const UcxViewFacts &ucx = facts.topology.ucx;
    if (ucx.distances.empty()) {
        if (ucx.version.empty())
            return os::format("UCX's own distances are not known: {}\n",
                              ucx.why_unknown.empty() ? "the file has none" : ucx.why_unknown);
        return os::format("UCX {} ({}) gives no distances: {}\n", ucx.version, ucx.source,
                          ucx.why_unknown.empty() ? "no card and no NIC have a place on PCIe" : ucx.why_unknown);
    }
    std::vector<Row> rows(1, Row{""});
    for (std::size_t nic = server.cards; nic < server.devices.size(); ++nic)
        rows.front().push_back(server.devices[nic].name);
    for (std::size_t card = 0; card < server.cards; ++card) {
        Row row{server.devices[card].name};
        for (std::size_t nic = server.cards; nic < server.devices.size(); ++nic)
            row.push_back(describe(find_distance(facts, server.devices[card], server.devices[nic])));
        rows.push_back(std::move(row));
    }
    return os::format("Distances as UCX {} ({}) sees them:\n\n{}", ucx.version, ucx.source, format_table(rows));
}

std::string format_nics_of_cards(const Server &server) {
    std::vector<Row> rows = {{"card", "bus id", "nearest NIC", "UCX: rendezvous", "UCX: put and get"}};
    for (std::size_t card = 0; card < server.cards; ++card) {
        const auto [relation, nearest] = server.nearest_nics(card);
        const ChosenNics &chosen = server.chosen[card];
        rows.push_back({server.devices[card].name, or_dash(server.devices[card].bus_id),
                        nearest.empty() ? "-" : os::format("{} ({})", os::join(nearest, ", "), name_of(relation)),
                        or_dash(os::join(chosen.rendezvous, ", ")), or_dash(os::join(chosen.put_get, ", "))});
    }
    std::string text = format_table(rows);
    std::map<std::string, std::vector<std::string>> copied, unknown; // cards by the reason
    for (std::size_t card = 0; card < server.cards; ++card) {
        const ChosenNics &chosen = server.chosen[card];
        if (!chosen.why_none.empty())
            (chosen.known ? copied : unknown)[chosen.why_none].push_back(server.devices[card].name);
    }
    const auto list = [&](const std::vector<std::string> &names) {
        return names.size() == server.cards ? "all cards" : os::join(names, ", ");
    };
    for (const auto &[why, names] : copied)
        text += os::format("\nUCX moves the memory of {} through host memory: {}\n", list(names), why);
    for (const auto &[why, names] : unknown)
        text += os::format("\nThe NICs that UCX uses for {} are not known: {}\n", list(names), why);
    return text;
}

std::string format_settings(const Facts &facts) {
    std::vector<std::string> words;
    for (const auto &[name, value] : facts.topology.ucx.settings)
        words.push_back(os::format("{}={}", name, value));
    return words.empty() ? "" : os::format("\nwith {}\n", os::join(words, " "));
}

} // namespace

std::string format_text(const Facts &facts, const Server &server) {
    std::string text;
    if (facts.thunk.software)
        text += "SOFTWARE: the cards are those of softgaudi, not hardware\n\n";
    if (server.devices.empty())
        return text + "There is no card and no RDMA NIC.\n";
    text += os::format("{}\n{}", format_matrix(server), format_legend(server));
    if (!server.ports.empty())
        text += os::format("\nNot shown are ports of the cards: {}\n", os::join(server.ports, ", "));
    if (server.cards > 0 && server.devices.size() > server.cards)
        text += os::format("\n{}", format_distances(facts, server));
    if (server.cards > 0)
        text += os::format("\n{}{}", format_nics_of_cards(server), format_settings(facts));
    for (const std::string &warning : server.warnings)
        text += os::format("\nWARN  {}\n", warning);
    return text;
}

} // namespace gaudi::cli::topo
