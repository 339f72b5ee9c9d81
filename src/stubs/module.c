// SPDX-License-Identifier: BSD-3-Clause
#include "core/core.h"

/// UCX looks this function up in a module that it has loaded, and calls it once. GAUDI_CORE_LOAD is the function of the
/// core for this framework.
__attribute__((visibility("default"))) signed char ucs_module_global_init(void) {
    return GAUDI_CORE_LOAD(__builtin_return_address(0));
}
