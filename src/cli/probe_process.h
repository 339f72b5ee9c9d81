// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

namespace gaudi::cli {

/// To be called first in a child that tries libraries, with the id of its parent: signals end it although the parent may
/// hold them back for another child, and it does not outlive the parent if a library hangs.
void become_probe(pid_t parent);

} // namespace gaudi::cli
