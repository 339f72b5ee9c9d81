// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/functions.h"
#include "ucx/host.h"

namespace gaudi::ucm {

using Modify = decltype(ucx::Functions::ucm_reloc_modify);

/// Redirects the calls of every library that is linked to libhl-thunk, now and later, to HookedCalls. Libraries that are
/// loaded later find the hooks in libucm_gaudi, in which `module` is an address. Where that does not do, because a library
/// that is linked to libhl-thunk is loaded already, or `module` is null or of an older release, all libraries are patched by
/// a UCX's `modify`, which may be null and takes long: it reads the symbols of every library of the process. Once per
/// process, by the first UCX that calls it. Callers that looked the functions up by name are not reached.
ucx::Result<void> install_hooks(Modify modify, const void *module);

} // namespace gaudi::ucm
