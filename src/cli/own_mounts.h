// SPDX-License-Identifier: BSD-3-Clause
// Mounts that only this process and its children see, made without any privilege.
#pragma once

#include "sentence.h"

namespace gaudi::cli {

/// Moves this process, which must have one thread, into a user and a mount namespace of its own. User and group stay
/// what they are. Where that is forbidden: a sentence.
OrSentence<void> enter_own_mounts();

} // namespace gaudi::cli
