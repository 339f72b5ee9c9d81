// SPDX-License-Identifier: BSD-3-Clause
#include "quote.h"

#include "os/format.h"

#include <string_view>

namespace gaudi::cli {
namespace {

std::string quote(const std::string &word) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
        return word;
    std::string out = "'";
    for (const char letter : word) {
        if (letter == '\'')
            out.append("'\\''");
        else
            out.push_back(letter);
    }
    out.push_back('\'');
    return out;
}

} // namespace

std::string quote_words(const std::vector<std::string> &words) {
    std::vector<std::string> quoted;
    for (const std::string &word : words)
        quoted.push_back(quote(word));
    return os::join(quoted, " ");
}

} // namespace gaudi::cli
