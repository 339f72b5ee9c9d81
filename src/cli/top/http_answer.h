// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cli/sentence.h"

#include <functional>
#include <string>

namespace gaudi::cli::top {

/// The text of /metrics; an error becomes a 500 with the sentence.
using MetricsPage = std::function<OrSentence<std::string>()>;

/// The answer to a request whose header is complete: 200 for GET and HEAD of / and /metrics.
std::string answer_request(const std::string &request, const MetricsPage &page);
/// The answer to a request whose header has no end.
std::string refuse_long_request();

} // namespace gaudi::cli::top
