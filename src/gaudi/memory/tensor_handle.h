// SPDX-License-Identifier: BSD-3-Clause
// PyTorch's data_ptr() of a tensor on a card is, in its default mode, a handle and no address: bits 62 and 63 are the size
// class, then follow an id that counts from 1 and an offset of 22, 32 or 42 bits. UCX takes a handle for host memory.
#pragma once

#include "gaudi/card/range.h"

#include <array>
#include <cstdint>

namespace gaudi {

/// Where such handles are and memory of this process is not. The range of small handles is empty in a program that is linked
/// to fixed addresses: its heap is there.
std::array<Range, 3> tensor_handle_ranges();

/// Whether `address` is shaped like such a handle, and no memory of this process is there. The memory is not touched. True
/// once per process: the answer is for a warning. It may make a system call, for a bounded number of addresses.
bool is_first_tensor_handle(std::uint64_t address);

} // namespace gaudi
