// SPDX-License-Identifier: BSD-3-Clause
// Plain names for a UCX whose files carry hashes in theirs.
#pragma once

#include "sentence.h"
#include "ucx.h"

namespace gaudi::cli {

/// Fills `directory` (made here) with links to the libraries and modules of `ucx`, named as programs and UCX's own
/// loader look for them.
OrSentence<void> link_plainly(const Ucx &ucx, const std::filesystem::path &directory);

} // namespace gaudi::cli
