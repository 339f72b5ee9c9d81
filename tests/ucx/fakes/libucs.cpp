// SPDX-License-Identifier: BSD-3-Clause
// A libucs and libucm in one, with every symbol but those left out by FAKE_WITHOUT_*. Only the log works: it writes
// "LEVEL text" to stdout.
#include "ucx/functions.h"

#include <cstdarg>
#include <cstdio>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

// A symbol is left out by being called something else.
#ifdef FAKE_WITHOUT_LOOKUP
#define ucs_memtype_cache_lookup ucs_memtype_cache_other
#endif
#ifdef FAKE_WITHOUT_LEAVE
#define ucm_event_leave ucm_event_other
#endif

// Those that are defined below.
#define ucs_log_dispatch ucs_log_dispatch_in_the_list
#define ucs_global_opts ucs_global_opts_in_the_list
#define FAKE_DEFINE(name)                                                                                              \
    FAKE_EXPORT void *name;                                                                                            \
    void *name = nullptr;
GAUDI_UCX_UCS_REQUIRED(FAKE_DEFINE)
GAUDI_UCX_UCM_REQUIRED(FAKE_DEFINE)
#undef ucs_log_dispatch
#undef ucs_global_opts

FAKE_EXPORT gaudi::ucx::ucs_global_opts_t ucs_global_opts;
gaudi::ucx::ucs_global_opts_t ucs_global_opts = {{gaudi::ucx::UCS_LOG_LEVEL_DEBUG, "fake", "*"}};

FAKE_EXPORT void ucs_log_dispatch(const char *, unsigned, const char *, unsigned level, const void *,
                                  const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::printf("%u ", level);
    std::vprintf(format, arguments);
    std::printf("\n");
    va_end(arguments);
}
