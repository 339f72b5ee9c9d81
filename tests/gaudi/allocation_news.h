// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace gaudi::test {

/// From now on this thread calls `callback` from inside each new and delete, as UCX's hooks do when memory goes away.
/// Null ends that.
void set_allocation_callback(void (*callback)());

} // namespace gaudi::test
