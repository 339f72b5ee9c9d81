// SPDX-License-Identifier: BSD-3-Clause
// Plain names for a UCX whose files have hashes in their names.
#pragma once

#include "sentence.h"
#include "ucx.h"

namespace gaudi::cli {

/// Creates `directory` and in it links to the libraries and modules of `ucx`, with the names that programs and UCX's
/// module loader look for.
OrSentence<void> link_plain_names(const Ucx &ucx, const std::filesystem::path &directory);

} // namespace gaudi::cli
