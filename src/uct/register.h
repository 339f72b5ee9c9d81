// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/host.h"

namespace gaudi::uct {

// Adds our component and its transports to that UCX, whose ABI has been proved. Called once per UCX, and the last thing
// that can fail: UCX cannot forget a component.
ucx::ucs_status_t register_uct(ucx::Host &host);

} // namespace gaudi::uct
