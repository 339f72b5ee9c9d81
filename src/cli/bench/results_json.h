// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cli/sentence.h"
#include "compare.h"
#include "result.h"

#include <string>

namespace gaudi::cli::bench {

std::string format_json(const Results &results, const Comparison *comparison);
/// The results in a file of `ucx_gaudi bench --json`. Its comparison is not read.
OrSentence<Results> read_results(const std::string &path);
/// The same from the text of the file.
OrSentence<Results> parse_results(const std::string &text, const std::string &path);

} // namespace gaudi::cli::bench
