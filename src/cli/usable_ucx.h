// SPDX-License-Identifier: BSD-3-Clause
// The UCX that a user names, if it loads the modules.
#pragma once

#include "ucx.h"

namespace gaudi::cli {

/// resolve_ucx(), but refuses a UCX that does not load the modules: a program would run there without Gaudi and without a
/// word about it.
OrSentence<Ucx> resolve_usable_ucx(const std::string &name);

} // namespace gaudi::cli
