// SPDX-License-Identifier: BSD-3-Clause
// SIGINT, SIGTERM, SIGHUP and SIGQUIT end top and metrics --listen in order. They are blocked but in a poll, so that none
// is missed between a look and the wait.
#pragma once

#include <poll.h>

#include <span>

namespace gaudi::cli::top {

/// From now on these signals are noted, unless they are ignored, and only while poll_until_end() waits.
void note_end_signals();
bool has_end_signal();
/// As ppoll(2), which these signals interrupt.
int poll_until_end(std::span<pollfd> descriptors, int milliseconds);

} // namespace gaudi::cli::top
