// SPDX-License-Identifier: BSD-3-Clause
// Parsing of environment variables. Each error is one sentence for the user.
#pragma once

#include <tl/expected.hpp>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace soft {

template <class T>
using Expected = tl::expected<T, std::string>;
using Unexpected = tl::unexpected<std::string>;

/// The value of a variable; empty when it is not set.
std::string_view env(const char *name);

/// The errno with this name, or written as a number.
std::optional<int> errno_by_name(std::string_view name);

/// The name of an errno, or its number.
std::string name_errno(int code);

template <class T>
std::optional<T> parse_number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        return {};
    return value;
}

/// Removes `prefix` from the start of `text`; false when `text` does not start with it.
bool cut_prefix(std::string_view &text, std::string_view prefix);

/// Calls `take` with each non-empty piece of `text` between separators, up to the first error.
template <class Take>
Expected<void> split(std::string_view text, char separator, Take take) {
    while (!text.empty()) {
        const size_t cut = text.find(separator);
        const std::string_view piece = text.substr(0, cut);
        text = cut == std::string_view::npos ? "" : text.substr(cut + 1);
        if (piece.empty())
            continue;
        if (Expected<void> done = take(piece); !done)
            return done;
    }
    return {};
}

} // namespace soft
