// SPDX-License-Identifier: BSD-3-Clause
// Files of `ucx_gaudi dump`.
#pragma once

#include "facts.h"

#include <string>

namespace gaudi::cli::doctor {

/// Reads nothing but the file: what a command tells of these facts is about the machine that wrote it.
OrSentence<Facts> read_facts_file(const std::string &path);

OrSentence<void> write_facts_file(const Facts &facts, const std::string &path);

} // namespace gaudi::cli::doctor
