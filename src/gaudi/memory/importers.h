// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace gaudi {

/// Whether a device of this machine may import a dma-buf and write to a card's memory through it: an RDMA device or a
/// GPU. False only where the kernel has no driver loaded that could. Costs a few system calls.
bool importer_may_exist();

/// The same for each copy: an answer that there is none holds for 100 ms. A driver that is loaded meanwhile takes longer than
/// that until its device can write: the device must be started and opened, and import the memory.
bool importer_may_have_come();

} // namespace gaudi
