// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/functions.h"
#include "ucx/host.h"

namespace gaudi::ucm {

using Modify = decltype(ucx::Functions::ucm_reloc_modify);

/// Lets every library that is linked to libhl-thunk, now and later, call us in its place, by a UCX's `modify`, which may be
/// null; once per process, whichever UCX asks first. Callers that looked its functions up by name are not reached.
ucx::Result<void> install_hooks(Modify modify);

} // namespace gaudi::ucm
