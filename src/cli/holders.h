// SPDX-License-Identifier: BSD-3-Clause
// Which processes have a card open. The driver reports only that one has.
#pragma once

#include "thunk/device.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace gaudi::cli {

struct Holder {
    pid_t pid = 0;
    std::string command;
};

/// The processes that have the card of this control descriptor open, as far as this user may see them.
std::vector<Holder> find_holders(const thunk::Device &control);

} // namespace gaudi::cli
