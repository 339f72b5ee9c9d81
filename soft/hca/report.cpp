// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace softhca {

void report(std::string_view sentence) {
    std::fprintf(stderr, "softhca: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

bool mark_reported(Shortage shortage, int error) {
    constexpr size_t kShortages = static_cast<size_t>(Shortage::event) + 1;
    constexpr size_t kErrors = 192; // more than Linux has
    static std::array<std::array<std::atomic<bool>, kErrors>, kShortages> known;
    const size_t column = std::min(static_cast<size_t>(std::max(error, 0)), kErrors - 1);
    return !known[static_cast<size_t>(shortage)][column].exchange(true);
}

} // namespace softhca
