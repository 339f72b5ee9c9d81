// SPDX-License-Identifier: BSD-3-Clause
// What softgaudi_stat and softhca_stat count.
#pragma once

#include "ucp_side.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <string>

namespace e2e {

/// What one of these programs prints.
inline nlohmann::json report(const char *program) {
    FILE *pipe = popen((std::string(program) + " --json").c_str(), "r");
    std::string text;
    std::array<char, 4096> part{};
    for (std::size_t got = 0; pipe && (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
        text.append(part.data(), got);
    if (!pipe || pclose(pipe) != 0)
        throw Failure(std::string(program) + " failed");
    return nlohmann::json::parse(text);
}

} // namespace e2e
