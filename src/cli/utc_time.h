// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace gaudi::cli {

/// The time of now for a report, as in 2026-01-01T00:00:00Z.
std::string format_utc_time();

} // namespace gaudi::cli
