// SPDX-License-Identifier: BSD-3-Clause
// A picture of the results: bandwidth and latency over the size, both axes logarithmic.
#pragma once

#include "result.h"

#include <string>

namespace gaudi::cli::bench {

/// An SVG document.
std::string draw(const Results &results);

} // namespace gaudi::cli::bench
