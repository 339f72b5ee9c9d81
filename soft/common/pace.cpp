// SPDX-License-Identifier: BSD-3-Clause
#include "common/pace.h"

#include "os/format.h"

#include <algorithm>
#include <cmath>

namespace soft {
namespace {

constexpr double kSlowestGBps = 1e-6, kLongestUs = 1e9; // limits of a 64-bit clock

template <class Figure>
std::string names(const std::vector<Figure> &figures) {
    std::string out;
    for (const Figure &figure : figures)
        out += gaudi::os::format("{}{}", out.empty() ? "" : ", ", figure.name);
    return out;
}

} // namespace

Expected<void> parse_figures(const char *variable, std::string_view text, const std::vector<Rate> &rates,
                             const std::vector<Cost> &costs) {
    return split(text, ',', [&](std::string_view piece) -> Expected<void> {
        const auto bad = [&](std::string_view what, std::string_view why) {
            return Unexpected(gaudi::os::format("{}: '{}': {}", variable, what, why));
        };
        const size_t colon = piece.find(':');
        const std::string_view name = piece.substr(0, colon);
        const auto value =
            colon == std::string_view::npos ? std::nullopt : parse_number<double>(piece.substr(colon + 1));
        if (!value || !std::isfinite(*value) || *value < 0)
            return bad(piece, gaudi::os::format("expected NAME:NUMBER, for example {}:25", rates.front().name));
        const auto rate = std::ranges::find(rates, name, &Rate::name);
        const auto cost = std::ranges::find(costs, name, &Cost::name);
        if (rate != rates.end()) {
            if (*value < kSlowestGBps)
                return bad(piece, gaudi::os::format("must be at least {} GB/s", kSlowestGBps));
            *rate->ns_per_byte = 1 / *value; // 1 GB/s is one byte per nanosecond
        } else if (cost != costs.end()) {
            if (*value > kLongestUs)
                return bad(piece, gaudi::os::format("must be at most {} us", kLongestUs));
            *cost->ns = static_cast<uint64_t>(*value * 1000);
        } else {
            return bad(name,
                       gaudi::os::format("unknown name; expected {} (GB/s) or {} (us)", names(rates), names(costs)));
        }
        return {};
    });
}

} // namespace soft
