// SPDX-License-Identifier: BSD-3-Clause
// Link speeds as users write them: name:number, separated by commas.
#pragma once

#include "common/parsing.h"

#include <cstdint>
#include <vector>

namespace soft {

/// The speed of a link, written in GB/s.
struct Rate {
    std::string_view name;
    double *ns_per_byte;
};
/// The cost of a step, written in microseconds.
struct Cost {
    std::string_view name;
    uint64_t *ns;
};

/// Writes the figures in `text` to the rates and costs of the same name.
Expected<void> parse_figures(const char *variable, std::string_view text, const std::vector<Rate> &rates,
                             const std::vector<Cost> &costs);

} // namespace soft
