// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/host.h"

namespace gaudi::ucm {

/// Adds the installer to the list of this UCX, which calls it when an event handler for device memory is set.
/// `module` is an address in libucm_gaudi.
ucx::ucs_status_t register_installer(ucx::Host &host, const void *module);

} // namespace gaudi::ucm
