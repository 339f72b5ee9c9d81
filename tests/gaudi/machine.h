// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace gaudi::test {

/// Whether the product finds the drivers of a NIC, whatever NIC this machine has.
extern bool machine_has_nic;

} // namespace gaudi::test
