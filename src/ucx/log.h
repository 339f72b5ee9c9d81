// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "host.h"

/// The name of the source file. g++ 11 has only its path, of which UCX prints the last part.
#ifdef __FILE_NAME__
#define GAUDI_FILE_NAME __FILE_NAME__
#else
#define GAUDI_FILE_NAME __FILE__
#endif

/// GAUDI_UCX_LOG(host, WARN, "card %d is lost", index): arguments are evaluated only when the line will be printed.
#define GAUDI_UCX_LOG(host, level, ...)                                                                                \
    do {                                                                                                               \
        const ::gaudi::ucx::Host &log_host = (host);                                                                   \
        if (log_host.log_enabled(::gaudi::ucx::UCS_LOG_LEVEL_##level))                                                 \
            log_host.log(::gaudi::ucx::UCS_LOG_LEVEL_##level, GAUDI_FILE_NAME, __LINE__, __func__, __VA_ARGS__);       \
    } while (false)
