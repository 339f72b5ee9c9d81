// SPDX-License-Identifier: BSD-3-Clause
// Command lines of the benchmarks: a wrong one prints one sentence and exits with 2.
#pragma once

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>

namespace bench {

/// Parses a whole number above 0.
inline std::optional<unsigned> number(std::string_view word) {
    unsigned value = 0;
    const char *end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, value);
    return error == std::errc{} && rest == end && value != 0 ? std::optional(value) : std::nullopt;
}

inline int usage(const char *sentence) {
    std::fprintf(stderr, "usage: %s\n", sentence);
    return 2;
}

} // namespace bench
