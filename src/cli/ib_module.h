// SPDX-License-Identifier: BSD-3-Clause
// Whether a UCX can use RDMA NICs: not every build has the module for them.
#pragma once

#include "ucx.h"

#include <optional>
#include <string>

namespace gaudi::cli {

/// Whether this UCX has a module libuct_ib in one of the directories that it loads modules from. Nothing if there are
/// no modules beside its libraries: it then loads them from a directory that was compiled in, which is not known here.
std::optional<bool> has_ib_module(const Ucx &ucx);

/// If this UCX is known to have no ib module: an error that names fetched UCX builds with one. `name` is the value of
/// --ucx.
OrSentence<void> check_ib_module(const Ucx &ucx, const std::string &name);

} // namespace gaudi::cli
