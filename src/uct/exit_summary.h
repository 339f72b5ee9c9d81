// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "gaudi/counters/snapshot.h"

#include <string>

namespace gaudi::uct {

/// The summary of UCX_GAUDI_STATS=y; empty for a process that has opened no card.
std::string format_summary(const ProcessSnapshot &process);

/// Prints it on stderr when the process exits by exit() or a return from main, also without a cleanup of UCX. A process that
/// ends by a signal, by _exit() or by exec prints none, and nor does a forked child that has opened no domain.
void print_summary_at_exit();

} // namespace gaudi::uct
