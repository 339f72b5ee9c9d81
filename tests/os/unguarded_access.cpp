// SPDX-License-Identifier: BSD-3-Clause
// Must not compile with clang's -Wthread-safety: the counter is read without its lock.
#include "os/mutex.h"

namespace {

constexpr gaudi::os::LockRank kRank{1, "counter"};
gaudi::os::Mutex s_mutex{kRank};
int s_counter GAUDI_GUARDED_BY(s_mutex) = 0;

} // namespace

int unguarded_access() { return s_counter; }
