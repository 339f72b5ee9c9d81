// SPDX-License-Identifier: BSD-3-Clause
// A plugin that is linked to libhl-thunk and that a program loads at run time.
#include "thunk/abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int open_card() { return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr); }

EXPORT int close_card(int fd) { return hlthunk_close(fd); }

EXPORT int use_card(int fd, uint64_t size) {
    const uint64_t handle = hlthunk_device_memory_alloc(fd, size, 0, false, false);
    const uint64_t address = hlthunk_device_memory_map(fd, handle, 0);
    if (handle == 0 || address == 0)
        return 1;
    return hlthunk_memory_unmap(fd, address) == 0 && hlthunk_device_memory_free(fd, handle) == 0 ? 0 : 2;
}
