// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace gaudi {

/// A range of addresses.
struct Range {
    std::uint64_t base = 0;
    std::uint64_t length = 0;

    bool contains(std::uint64_t address) const { return address - base < length; }
};

} // namespace gaudi
