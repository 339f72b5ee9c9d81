// SPDX-License-Identifier: BSD-3-Clause
// All that libgaudi-core.so.1 exports: one function per UCX framework. A module passes the address that it was called
// from, which is in the libucs that loads it, and returns the result to UCX.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Each returns a ucs_status_t, which is one signed byte. 0: UCX keeps the module; else UCX drops it and continues.
signed char gaudi_core_uct_load(void *caller);
signed char gaudi_core_ucm_load(void *caller);
signed char gaudi_core_perftest_load(void *caller);

#ifdef __cplusplus
}
#endif
