// SPDX-License-Identifier: BSD-3-Clause
#include "forks.h"

#include <pthread.h>

namespace gaudi {

std::atomic<unsigned> detail::fork_count{0};

namespace {

// Registered when the library is loaded, so that no fork is missed.
[[maybe_unused]] const int s_registered =
    pthread_atfork(nullptr, nullptr, [] { detail::fork_count.fetch_add(1, std::memory_order_relaxed); });

} // namespace
} // namespace gaudi
