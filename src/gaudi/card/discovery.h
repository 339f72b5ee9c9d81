// SPDX-License-Identifier: BSD-3-Clause
// Finds the cards of this machine through their control nodes, and opens none. GAUDI_MAPPING_TABLE and
// HABANA_VISIBLE_MODULES choose among them.
#pragma once

#include "node_proof.h"
#include "result.h"
#include "thunk/library.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi {

struct DiscoveredCard {
    std::string bus_id;
    hlthunk_hw_ip_info info;
    std::uint32_t number; // the card's name for users: its module id, or its index in GAUDI_MAPPING_TABLE
    NodeProof node;
};

struct Discovery {
    const thunk::Library *library = nullptr; // null: this machine has no libhl-thunk
    std::vector<DiscoveredCard> cards;       // in the user's order, else by module id
    std::string why_empty = "there is no Gaudi card";
    bool numbered_by_table = false; // else a card's number is its module id
    std::string hidden_by;          // the setting that leaves cards out, as NAME=VALUE; else empty
};

/// No library or no card is no error. A library that the user named and that cannot be loaded is, and so is a bad
/// GAUDI_MAPPING_TABLE or HABANA_VISIBLE_MODULES.
Result<Discovery> discover_cards();

} // namespace gaudi
