// SPDX-License-Identifier: BSD-3-Clause
// The functions of libhl-thunk that the memory hooks see. libucm_gaudi exports them under libhl-thunk's names and hands each
// call to the core, which fills in this table (`gaudi_hooks` in libucm_gaudi) before a library can find those names there.
// Modules and cores of all versions understand this header, as core/core.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct gaudi_hooks {
    int (*open)(int name, const char *bus_id);
    int (*open_by_module_id)(uint32_t module_id);
    int (*close)(int fd);
    uint64_t (*device_memory_alloc)(int fd, uint64_t size, uint64_t page_size, bool contiguous, bool shared);
    int (*device_memory_free)(int fd, uint64_t handle);
    uint64_t (*device_memory_map)(int fd, uint64_t handle, uint64_t hint);
    int (*memory_unmap)(int fd, uint64_t address);
};
