// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/functions.h"
#include "ucx/host.h"

namespace gaudi::ucm {

using Modify = decltype(ucx::Functions::ucm_reloc_modify);

/// Redirects the calls of every library that is linked to libhl-thunk, now and later, to HookedCalls, by a UCX's `modify`,
/// which may be null. Once per process, by the first UCX that calls it. Callers that looked the functions up by name are not
/// reached.
ucx::Result<void> install_hooks(Modify modify);

} // namespace gaudi::ucm
