// SPDX-License-Identifier: BSD-3-Clause
// The forms in which `ucx_gaudi topo` shows a server.
#pragma once

#include "server.h"

#include <string>

namespace gaudi::cli::topo {

std::string format_text(const doctor::Facts &facts, const Server &server);
/// As docs/schema/topo-1.json describes it.
std::string format_json(const doctor::Facts &facts, const Server &server);
/// A picture of NUMA nodes, root complexes, switches, cards and NICs.
std::string draw_svg(const doctor::Facts &facts, const Server &server);

} // namespace gaudi::cli::topo
