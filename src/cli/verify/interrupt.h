// SPDX-License-Identifier: BSD-3-Clause
// SIGINT and SIGTERM end a verification in order: memory is freed and the card closed.
#pragma once

namespace gaudi::cli::verify {

/// From now on these signals are noted instead of ending the process.
void note_interrupts();
bool is_interrupted();
/// The signal that came; 0: none.
int interrupting_signal();

} // namespace gaudi::cli::verify
