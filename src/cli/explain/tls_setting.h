// SPDX-License-Identifier: BSD-3-Clause
// The transports of a transfer between machines, tried on one.
#pragma once

#include <string>

namespace gaudi::cli::explain {

/// A value of UCX_TLS without the transports that exist only within a machine. `value` is the user's, or empty.
std::string exclude_local_transports(const std::string &value);

/// Whether such a value has a transport that reaches another machine, beside those that only copy memory.
bool reaches_other_machines(const std::string &value);

} // namespace gaudi::cli::explain
