// SPDX-License-Identifier: BSD-3-Clause
// What users write into environment variables, taken apart. What is wrong with it is told in one sentence.
#pragma once

#include <tl/expected.hpp>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace soft {

template <class T>
using OrSentence = tl::expected<T, std::string>;
using Sentence = tl::unexpected<std::string>;

/// Empty for a variable that is not set.
std::string_view env(const char *name);

/// The error's number by its name, or written as a number.
std::optional<int> errno_by_name(std::string_view name);

template <class T>
std::optional<T> number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        return {};
    return value;
}

/// Whether `text` began with `prefix`, which it then no longer does.
bool cut_prefix(std::string_view &text, std::string_view prefix);

/// Calls `take` with each non-empty piece of `text` between separators; stops at the first error.
template <class Take>
OrSentence<void> split(std::string_view text, char separator, Take take) {
    while (!text.empty()) {
        const size_t cut = text.find(separator);
        const std::string_view piece = text.substr(0, cut);
        text = cut == std::string_view::npos ? "" : text.substr(cut + 1);
        if (piece.empty())
            continue;
        if (OrSentence<void> done = take(piece); !done)
            return done;
    }
    return {};
}

} // namespace soft
