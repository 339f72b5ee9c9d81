// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// All that libgaudi-core.so.1 exports: one function per UCX framework. A module hands over the address that it was
// called from, which is in the libucs that loads it, and returns what it gets to UCX.

#ifdef __cplusplus
extern "C" {
#endif

// A ucs_status_t, which is one signed byte. 0: UCX keeps the module; else it drops the module and goes on without.
signed char gaudi_core_uct_load(void *caller);
signed char gaudi_core_ucm_load(void *caller);
signed char gaudi_core_perftest_load(void *caller);

#ifdef __cplusplus
}
#endif
