// SPDX-License-Identifier: BSD-3-Clause
// Counts the allocations of this program's own code, without those of libraries. A program that links it has its
// allocating operators replaced.
#pragma once

#include <cstdint>

std::uint64_t allocations();
