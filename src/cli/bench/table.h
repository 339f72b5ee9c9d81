// SPDX-License-Identifier: BSD-3-Clause
// Results as text for readers.
#pragma once

#include "compare.h"
#include "result.h"

#include <string>

namespace gaudi::cli::bench {

std::string format_test_list();
/// What the figures are of: the library, the samples, and that it is software where it is.
std::string format_heading(const Results &results);
/// A table for each test on each route.
std::string format_rows(const Results &results);
std::string format_skipped(const Results &results);
std::string format_comparison(const Comparison &comparison, bool software);

} // namespace gaudi::cli::bench
