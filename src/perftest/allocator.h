// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "ucx/host.h"

namespace gaudi::perftest {

// Gives ucx_perftest its memory type "gaudi". UCS_ERR_UNSUPPORTED in a program that has no place for it.
ucx::ucs_status_t register_allocator(ucx::Host &host);

} // namespace gaudi::perftest
