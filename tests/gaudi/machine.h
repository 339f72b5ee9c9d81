// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

namespace gaudi::test {

/// Whether the product finds the drivers of a NIC, whatever NIC this machine has.
extern bool machine_has_nic;
/// Calls of access() so far.
extern std::atomic<unsigned> looks_at_machine;

} // namespace gaudi::test
