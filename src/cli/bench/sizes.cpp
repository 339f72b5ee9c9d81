// SPDX-License-Identifier: BSD-3-Clause
#include "sizes.h"

#include "os/format.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace gaudi::cli::bench {
namespace {

OrSentence<std::uint64_t> parse_size(std::string_view text) {
    const auto refuse = [&] {
        return Sentence(os::format("'{}' is not a size: 1 to 1G bytes, with K, M or G as in 64K", text));
    };
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > kMostBytes)
        return refuse();
    std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (unit.ends_with("iB"))
        unit.remove_suffix(2);
    const unsigned shift = unit.empty() || unit == "B"  ? 0
                           : unit == "K" || unit == "k" ? 10
                           : unit == "M" || unit == "m" ? 20
                           : unit == "G" || unit == "g" ? 30
                                                        : 64;
    if (shift == 64 || value == 0 || value > kMostBytes >> shift)
        return refuse();
    return value << shift;
}

} // namespace

OrSentence<std::vector<std::uint64_t>> parse_sizes(const std::string &text) {
    std::vector<std::uint64_t> sizes;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const auto size = parse_size(std::string_view(text).substr(begin, end - begin));
        if (!size)
            return Sentence(size.error());
        sizes.push_back(*size);
        begin = end + 1;
    }
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

std::string format_size(std::uint64_t bytes) {
    constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB"};
    unsigned unit = 0;
    for (; unit < 3 && bytes != 0 && bytes % 1024 == 0; ++unit)
        bytes /= 1024;
    return os::format("{} {}", bytes, kUnits[unit]);
}

} // namespace gaudi::cli::bench
