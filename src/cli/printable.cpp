// SPDX-License-Identifier: BSD-3-Clause
#include "printable.h"

namespace gaudi::cli {

std::string printable(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
        constexpr unsigned char kDelete = 0x7f, kHighControls = 0xc2; // U+0080 to U+009f in UTF-8
        if (byte == kHighControls && next >= 0x80 && next < 0xa0) {
            out += '?';
            ++i;
        } else {
            out += byte < ' ' || byte == kDelete ? '?' : text[i];
        }
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

} // namespace gaudi::cli
