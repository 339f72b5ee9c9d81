// SPDX-License-Identifier: BSD-3-Clause
// What a card can do on its machine: pure functions on facts and on the results of doctor's checks.
#pragma once

#include "cli/doctor/check.h"

#include <string>
#include <vector>

namespace gaudi::cli::info {

struct Ability {
    bool possible = false;
    std::string sentence; // how, or why not
};

/// An RDMA device and the memory of a card.
struct NicAbility {
    std::string nic;
    bool zero_copy = false;
    bool same_switch = false; // as the card
    bool tried = false;       // `--active` moved data that way
    std::string why_not;
};

struct Abilities {
    Ability copies, dmabuf_export, zero_copy;
    std::vector<NicAbility> nics;
};

Abilities abilities_of(const doctor::CardFacts &card, const doctor::Facts &facts,
                       const std::vector<doctor::Result> &results);

/// Whether this UCX finds a file of our module and loads it.
bool loads_modules(const doctor::UcxFacts &ucx);

} // namespace gaudi::cli::info
