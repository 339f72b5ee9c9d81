// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/host.h"

namespace gaudi::ucm {

/// Lets every library that is linked to libhl-thunk, now and later, call us in its place; once per process, whichever UCX
/// asks first. Callers that looked its functions up by name are not reached.
ucx::Result<void> install_hooks(const ucx::Host &host);

} // namespace gaudi::ucm
