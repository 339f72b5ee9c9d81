// SPDX-License-Identifier: BSD-3-Clause
// How often this program's own code, without that of libraries, has allocated memory so far. Linked in, it replaces the
// allocating operators.
#pragma once

#include <cstdint>

std::uint64_t allocations();
