// SPDX-License-Identifier: BSD-3-Clause
// A library that a program loads late and that takes locks in each of its threads.
#include "os/mutex.h"

namespace {

constexpr gaudi::os::LockRank kOuter{1, "outer"}, kInner{2, "inner"};
gaudi::os::Mutex s_outer{kOuter}, s_inner{kInner};
int s_calls GAUDI_GUARDED_BY(s_inner) = 0;

} // namespace

extern "C" __attribute__((visibility("default"))) int nest_two_locks() {
    const gaudi::os::MutexLock outer(s_outer);
    const gaudi::os::MutexLock inner(s_inner);
    return ++s_calls;
}
