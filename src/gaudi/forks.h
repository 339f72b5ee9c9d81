// SPDX-License-Identifier: BSD-3-Clause
// A forked child shares its parent's cards, and has a copy of what the parent knew of them: whatever it did there would be
// done to the parent's memory. What was begun before a fork is known by its number.
#pragma once

#include <atomic>

namespace gaudi {

namespace detail {
extern std::atomic<unsigned> forks;
}

/// How many forks lie between this process and the one that we were loaded into.
inline unsigned forks() noexcept { return detail::forks.load(std::memory_order_relaxed); }

} // namespace gaudi
