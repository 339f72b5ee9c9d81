// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/host.h"

namespace gaudi::uct {

/// Adds the component and its transports to a UCX whose ABI has been proved. Called once per UCX, and the last step
/// that can fail: UCX cannot forget a component.
ucx::ucs_status_t register_uct(ucx::Host &host);

} // namespace gaudi::uct
