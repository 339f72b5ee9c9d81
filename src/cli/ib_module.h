// SPDX-License-Identifier: BSD-3-Clause
// Whether a UCX can use RDMA NICs: not every build has the module for them.
#pragma once

#include "ucx.h"

#include <string>

namespace gaudi::cli {

/// If this UCX is known to have no ib module: an error that names fetched UCX builds with one. `name` is the value of
/// --ucx.
OrSentence<void> check_ib_module(const Ucx &ucx, const std::string &name);

} // namespace gaudi::cli
