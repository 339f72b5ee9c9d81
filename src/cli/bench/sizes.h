// SPDX-License-Identifier: BSD-3-Clause
// Sizes of transfers as users write and read them.
#pragma once

#include "cli/sentence.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi::cli::bench {

/// One byte to this.
inline constexpr std::uint64_t kMostBytes = 1 << 30;

/// "8,4K,1M" in bytes, in ascending order and each once.
OrSentence<std::vector<std::uint64_t>> parse_sizes(const std::string &text);
/// "8 B", "4 KiB", "1 MiB"; a size that is no whole number of these in bytes.
std::string format_size(std::uint64_t bytes);

} // namespace gaudi::cli::bench
