// SPDX-License-Identifier: BSD-3-Clause
#include "printable.h"

#include <cstddef>

namespace gaudi::os {
namespace {

/// The bytes of the UTF-8 sequence at the beginning of the text; 0 where it is none, or a control character (U+0080 to
/// U+009F are some too).
std::size_t printable_sequence(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : '\0'); };
    const unsigned char first = byte(0);
    if (first < 0x80)
        return first >= ' ' && first != 0x7f ? 1 : 0;
    const std::size_t length = first >= 0xf0 && first < 0xf5   ? 4
                               : first >= 0xe0 && first < 0xf0 ? 3
                               : first >= 0xc2 && first < 0xe0 ? 2
                                                               : 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
    return first == 0xc2 && byte(1) < 0xa0 ? 0 : length;
}

} // namespace

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = printable_sequence(text);
        out += length == 0 ? std::string_view("?") : text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out;
}

std::string printable_lines(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        out += printable(text.substr(0, end));
        if (end == std::string_view::npos)
            break;
        out += '\n';
        text.remove_prefix(end + 1);
    }
    return out;
}

} // namespace gaudi::os
