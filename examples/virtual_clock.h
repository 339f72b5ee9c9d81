// SPDX-License-Identifier: BSD-3-Clause
// The virtual clock of the software cards (docs/softgaudi.md), read by the program that is timed.
#pragma once

#include <cstdint>

namespace e2e {

/// The time of the cards in nanoseconds on softgaudi's virtual clock; 0 while this process has no libhl-thunk loaded. A program
/// takes it right before it starts something and right after it ended: what other processes do meanwhile moves the clock, too.
std::uint64_t read_virtual_clock();

} // namespace e2e
