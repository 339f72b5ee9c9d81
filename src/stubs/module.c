// SPDX-License-Identifier: BSD-3-Clause
#include "core/core.h"

// What UCX looks up in a module and calls once it is loaded. GAUDI_CORE_LOAD is the core's function for this framework.
__attribute__((visibility("default"))) signed char ucs_module_global_init(void) {
    return GAUDI_CORE_LOAD(__builtin_return_address(0));
}
