// SPDX-License-Identifier: BSD-3-Clause
#include "card_counts.h"

#include <array>
#include <cstdio>
#include <stdexcept>

namespace bench {

CardCounts::Both CardCounts::so_far(const std::string &stat, const std::string &bus_id) {
    FILE *pipe = popen((stat + " --json").c_str(), "re");
    std::string text;
    std::array<char, 4096> part{};
    for (std::size_t got = 0; pipe && (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
        text.append(part.data(), got);
    if (!pipe || pclose(pipe) != 0)
        throw std::runtime_error(stat + " failed");
    Both both;
    const Json report = Json::parse(text);
    for (const Json &card : report.at("cards")) {
        CardCounts &counts = card.at("bus_id") == bus_id ? both.card : both.others;
        counts.submissions += card.at("submissions").get<std::uint64_t>();
        counts.packets += card.at("packets").get<std::uint64_t>();
        for (const char *direction : {"down_bytes", "up_bytes", "card_bytes"})
            counts.bytes += card.at(direction).get<std::uint64_t>();
        for (const Json &count : card.at("calls"))
            counts.calls += count.get<std::uint64_t>();
    }
    return both;
}

Json CardCounts::per(double operations) const {
    return {{"submissions_per_operation", static_cast<double>(submissions) / operations},
            {"packets_per_operation", static_cast<double>(packets) / operations},
            {"driver_calls_per_operation", static_cast<double>(calls) / operations}};
}

} // namespace bench
