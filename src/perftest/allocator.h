// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/host.h"

namespace gaudi::perftest {

/// Adds the memory type "gaudi" to ucx_perftest. UCS_ERR_UNSUPPORTED in a program without a table of allocators.
ucx::ucs_status_t register_allocator(ucx::Host &host);

} // namespace gaudi::perftest
