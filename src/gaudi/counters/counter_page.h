// SPDX-License-Identifier: BSD-3-Clause
// The page that this process counts in: memory of its own until publish_counters() moves it into a file.
#pragma once

#include "counters.h"

#include <string>

namespace gaudi {

namespace detail {
extern std::atomic<CounterPage *> counter_page;
}

/// The page, for counters of the process. Counters of a card: Session::counters().
inline CounterPage &counters() noexcept { return *detail::counter_page.load(std::memory_order_acquire); }

/// Publishes the page at the first call in a process, also after a fork; before the first session, so that no counter is
/// lost on the way. A process that cannot publish counts all the same.
void publish_counters(const std::string &library_version);

/// Why the page is not published; empty where it is, or where no card was opened yet.
std::string why_not_published();

} // namespace gaudi
