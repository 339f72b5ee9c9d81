// SPDX-License-Identifier: BSD-3-Clause
// Mounts that only this process and its children see, made without privileges.
#pragma once

#include "sentence.h"

namespace gaudi::cli {

/// Moves this process, which must have one thread, into a user and a mount namespace of its own; user and group stay
/// the same. An error where the kernel forbids that.
OrSentence<void> enter_own_mounts();

} // namespace gaudi::cli
