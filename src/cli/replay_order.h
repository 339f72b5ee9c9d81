// SPDX-License-Identifier: BSD-3-Clause
// The order in which the calls of a recording are replayed.
#pragma once

#include "recording.h"

#include <cstddef>
#include <span>
#include <vector>

namespace gaudi::cli {

/// Positions of the events in the order in which the calls took effect, as far as the recording shows it. The file has them
/// in the order in which their records were written, and a thread may lose the processor between the driver's answer and
/// its record: another thread is then given the address before the record of the unmap that freed it is written.
std::vector<std::size_t> replay_order(std::span<const RecordedCall> events);

} // namespace gaudi::cli
