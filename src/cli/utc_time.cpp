// SPDX-License-Identifier: BSD-3-Clause
#include "utc_time.h"

#include <ctime>

namespace gaudi::cli {

std::string format_utc_time() {
    const std::time_t time = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&time, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

} // namespace gaudi::cli
