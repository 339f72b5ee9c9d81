// SPDX-License-Identifier: BSD-3-Clause
// Speeds as users write them: name:number, separated by commas.
#pragma once

#include "common/words.h"

#include <cstdint>
#include <vector>

namespace soft {

/// A link's speed, written in GB/s.
struct Rate {
    std::string_view name;
    double *ns_per_byte;
};
/// What a step costs, written in microseconds.
struct Cost {
    std::string_view name;
    uint64_t *ns;
};

/// Fills in what `text` names.
OrSentence<void> read_pace(const char *variable, std::string_view text, const std::vector<Rate> &rates,
                           const std::vector<Cost> &costs);

} // namespace soft
