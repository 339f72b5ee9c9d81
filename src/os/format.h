// SPDX-License-Identifier: BSD-3-Clause
// {fmt} behind two functions of our own: only os/format.cpp compiles the library, which otherwise would take each of our
// sources seconds. The compiler still checks format strings against their arguments.
#pragma once

#if __has_include(<fmt/base.h>)
#include <fmt/base.h> // {fmt} 11: there core.h is all of it
#else
#include <fmt/core.h>
#endif

#include <cstdio>
#include <string>
#include <string_view>

namespace gaudi::os {

std::string format_values(fmt::string_view text, fmt::format_args values);

template <class... Values>
std::string format(fmt::format_string<Values...> text, Values &&...values) {
    return format_values(text, fmt::make_format_args(values...));
}

template <class... Values>
void print(std::FILE *file, fmt::format_string<Values...> text, Values &&...values) {
    const std::string line = format_values(text, fmt::make_format_args(values...));
    std::fwrite(line.data(), 1, line.size(), file);
}

/// The values of a range as text, with `separator` between them.
template <class Range>
std::string join(const Range &range, std::string_view separator) {
    std::string text;
    bool first = true;
    for (const auto &value : range) {
        if (!first)
            text.append(separator);
        first = false;
        text.append(os::format("{}", value));
    }
    return text;
}

} // namespace gaudi::os
