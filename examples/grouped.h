// SPDX-License-Identifier: BSD-3-Clause
// Large numbers as people read them.
#pragma once

#include "os/format.h"

#include <cstdint>
#include <string>

/// Formats 134217728 as 134,217,728 in every locale.
inline std::string grouped(std::uint64_t number) {
    return number < 1000 ? gaudi::os::format("{}", number)
                         : gaudi::os::format("{},{:03}", grouped(number / 1000), number % 1000);
}
