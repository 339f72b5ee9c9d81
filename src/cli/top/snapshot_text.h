// SPDX-License-Identifier: BSD-3-Clause
// The counters of all processes in the three forms that users get.
#pragma once

#include "cli/counter_snapshot.h"

#include <optional>
#include <string>

namespace gaudi::cli::top {

/// A table with a line per process and per card. `earlier` is a snapshot of `seconds` ago, for rates.
std::string format_table(const CounterSnapshot &snapshot, const CounterSnapshot *earlier = nullptr, double seconds = 0);
/// docs/schema/top-1.json
std::string format_json(const CounterSnapshot &snapshot);
/// Prometheus text format 0.0.4
std::string format_metrics(const CounterSnapshot &snapshot);

} // namespace gaudi::cli::top
