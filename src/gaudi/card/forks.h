// SPDX-License-Identifier: BSD-3-Clause
// A forked child shares its parent's open cards and has a copy of the parent's objects: a call that it makes through them
// acts on the parent's memory. Objects that are not part of a session remember the process that made them by this number.
#pragma once

#include <atomic>

namespace gaudi {

namespace detail {
extern std::atomic<unsigned> fork_count;
}

/// The number of forks between this process and the one that loaded this library.
inline unsigned fork_count() noexcept { return detail::fork_count.load(std::memory_order_relaxed); }

} // namespace gaudi
