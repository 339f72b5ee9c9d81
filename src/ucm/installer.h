// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/host.h"

namespace gaudi::ucm {

/// Enters our installer into the list of this UCX: it installs the hooks when somebody wants to hear of device memory.
ucx::ucs_status_t register_installer(ucx::Host &host);

} // namespace gaudi::ucm
