// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "host.h"

/// GAUDI_UCX_LOG(host, WARN, "card %d is lost", index): arguments are evaluated only when the line will be printed.
#define GAUDI_UCX_LOG(host, level, ...)                                                                                \
    do {                                                                                                               \
        const ::gaudi::ucx::Host &log_host = (host);                                                                   \
        if (log_host.log_enabled(::gaudi::ucx::UCS_LOG_LEVEL_##level))                                                 \
            log_host.log(::gaudi::ucx::UCS_LOG_LEVEL_##level, __FILE_NAME__, __LINE__, __func__, __VA_ARGS__);         \
    } while (false)
