// SPDX-License-Identifier: BSD-3-Clause
#include "relation.h"

#include <algorithm>
#include <iterator>

namespace gaudi::cli::topo {

std::string root_complex_of(const Place &place) {
    const std::string &first = place.bridges.empty() ? place.bus_id : place.bridges.front();
    return first.substr(0, first.rfind(':'));
}

Relation relation_of(const Place &first, const Place &second, bool one_node) {
    if (first.bus_id.empty() || second.bus_id.empty())
        return Relation::unknown;
    const auto [a, b] = std::ranges::mismatch(first.bridges, second.bridges);
    if (a != first.bridges.begin()) {
        // Below the port that both share, a switch adds one bridge to the path of each: its downstream port.
        const auto left = std::max(std::distance(a, first.bridges.end()), std::distance(b, second.bridges.end()));
        return left <= 1 ? Relation::pix : Relation::pxb;
    }
    if (root_complex_of(first) == root_complex_of(second))
        return Relation::phb;
    if (one_node)
        return Relation::node;
    if (first.numa_node < 0 || second.numa_node < 0)
        return Relation::unknown;
    return first.numa_node == second.numa_node ? Relation::node : Relation::sys;
}

const char *name_of(Relation relation) {
    switch (relation) {
    case Relation::self:
        return "X";
    case Relation::pix:
        return "PIX";
    case Relation::pxb:
        return "PXB";
    case Relation::phb:
        return "PHB";
    case Relation::node:
        return "NODE";
    case Relation::sys:
        return "SYS";
    case Relation::unknown:
        break;
    }
    return "?";
}

} // namespace gaudi::cli::topo
