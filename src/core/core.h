// SPDX-License-Identifier: BSD-3-Clause
// The way from a module of UCX into libgaudi-core.so.1. A process keeps the first core that is loaded, and a module of
// another installation meets that one. So modules and cores of all versions understand this header: the function keeps its
// name and its arguments, and the structure gets new fields at its end only.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// What modules and core expect of each other. A change that a module of before cannot work with raises the number, and
/// the core refuses modules of another one.
#ifndef GAUDI_CORE_INTERFACE
#define GAUDI_CORE_INTERFACE 1
#endif

struct gaudi_module {
    unsigned interface;    // GAUDI_CORE_INTERFACE
    const char *version;   // of ucx-gaudi
    const char *framework; // of UCX: uct, ucm or ucx_perftest
};

/// Starts a module. `caller` is the address that the module was called from, which is in the libucs that loads it. Returns a
/// ucs_status_t, which is one signed byte. 0: UCX keeps the module; else UCX drops it and continues.
signed char gaudi_core_load(const struct gaudi_module *module, void *caller);

/// GAUDI_CORE_INTERFACE and, in `version`, the version of ucx-gaudi that this core is of: for a user of the buffers
/// (buffer/buffers.h), which may be of another installation too.
unsigned gaudi_core_interface(const char **version);

#ifdef __cplusplus
}
#endif
