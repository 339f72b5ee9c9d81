// SPDX-License-Identifier: BSD-3-Clause
// libhl-thunk's functions, as libraries find them here that are loaded after the core has made this file's names global.
#include "ucm/hook_table.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct gaudi_hooks gaudi_hooks; // the core fills it in

EXPORT int hlthunk_open(int name, const char *bus_id);
EXPORT int hlthunk_open_by_module_id(uint32_t module_id);
EXPORT int hlthunk_close(int fd);
EXPORT uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool contiguous, bool shared);
EXPORT int hlthunk_device_memory_free(int fd, uint64_t handle);
EXPORT uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint);
EXPORT int hlthunk_memory_unmap(int fd, uint64_t address);

int hlthunk_open(int name, const char *bus_id) { return gaudi_hooks.open(name, bus_id); }

int hlthunk_open_by_module_id(uint32_t module_id) { return gaudi_hooks.open_by_module_id(module_id); }

int hlthunk_close(int fd) { return gaudi_hooks.close(fd); }

uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool contiguous, bool shared) {
    return gaudi_hooks.device_memory_alloc(fd, size, page_size, contiguous, shared);
}

int hlthunk_device_memory_free(int fd, uint64_t handle) { return gaudi_hooks.device_memory_free(fd, handle); }

uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint) {
    return gaudi_hooks.device_memory_map(fd, handle, hint);
}

int hlthunk_memory_unmap(int fd, uint64_t address) { return gaudi_hooks.memory_unmap(fd, address); }
