// SPDX-License-Identifier: BSD-3-Clause
// Exported function: lets `ucx_gaudi run` refuse a wrong setting before the program starts.
#include "config.h"

#include <cstdio>

/// Reads the settings as the first call of the program would. Returns 0, or -1 with one sentence that names the variable.
extern "C" __attribute__((visibility("default"))) int softgaudi_check_settings(char *sentence, size_t size) {
    const auto config = softgaudi::read_config();
    if (!config)
        std::snprintf(sentence, size, "%s", config.error().c_str());
    return config ? 0 : -1;
}
