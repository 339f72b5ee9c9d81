// SPDX-License-Identifier: BSD-3-Clause
#include "forks.h"

#include <pthread.h>

namespace gaudi {

std::atomic<unsigned> detail::forks{0};

namespace {

// From the moment that we are loaded, whoever forks.
[[maybe_unused]] const int s_counted =
    pthread_atfork(nullptr, nullptr, [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });

} // namespace
} // namespace gaudi
