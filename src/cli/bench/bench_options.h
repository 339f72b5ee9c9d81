// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli {

struct BenchOptions {
    bool list = false;
    std::vector<std::string> tests; // their names; empty: all
    std::vector<std::string> cards; // as users name them; empty: those that nothing uses
    std::string sizes;              // as in 4K,1M; empty: the default ones
    std::optional<unsigned> samples;
    bool quick = false;
    bool with_json = false;
    std::string json;    // the file; empty: stdout
    std::string plot;    // the file of the picture; empty: none
    std::string compare; // the file of an earlier run; empty: none
};

} // namespace gaudi::cli
