// SPDX-License-Identifier: BSD-3-Clause
#include "grouped.h"

#include "os/format.h"

namespace gaudi::cli {

std::string name_cards(const std::vector<std::uint64_t> &numbers) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t end = i + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
            ++end;
        parts.push_back(end - i < 2 ? std::to_string(numbers[i]) : os::format("{}-{}", numbers[i], numbers[end - 1]));
        i = end;
    }
    return os::format("{} {}", numbers.size() == 1 ? "card" : "cards", os::join(parts, ", "));
}

} // namespace gaudi::cli
