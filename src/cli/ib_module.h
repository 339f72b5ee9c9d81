// SPDX-License-Identifier: BSD-3-Clause
// Whether a UCX can use RDMA NICs: not every build brings the module for them.
#pragma once

#include "ucx.h"

#include <optional>

namespace gaudi::cli {

/// Whether this UCX has a module libuct_ib in one of the directories that it loads modules from. Nothing where it has no
/// modules beside it: then it loads them from a directory that was chosen when it was built, which is not known here.
std::optional<bool> has_ib_module(const Ucx &ucx);

/// An error that names the engines with an ib module, if this UCX is known to have none. `name` is what --ucx said.
OrSentence<void> check_ib_module(const Ucx &ucx, const std::string &name);

} // namespace gaudi::cli
