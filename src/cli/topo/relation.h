// SPDX-License-Identifier: BSD-3-Clause
// What lies between two PCI functions, in the words of `nvidia-smi topo -m`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi::cli::topo {

/// From near to far.
enum class Relation { self, pix, pxb, phb, node, sys, unknown };

/// Where a card or NIC is.
struct Place {
    std::string bus_id;               // empty: not known
    std::vector<std::string> bridges; // above it, from the root down
    std::int64_t numa_node = -1;      // -1: not known
};

/// The root complex of a place, as in 0000:16. The bus of what is directly at a host bridge is that of its root complex.
std::string root_complex_of(const Place &place);

/// `one_node`: the machine has no second NUMA node, so that a function without a node is on the only one.
Relation relation_of(const Place &first, const Place &second, bool one_node);

/// PIX and so on; ? for an unknown one.
const char *name_of(Relation relation);

} // namespace gaudi::cli::topo
