// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace gaudi::test {

/// From now on this thread calls `news` from inside every new and delete, as UCX's hooks do when memory goes away.
void at_allocations(void (*news)());

} // namespace gaudi::test
