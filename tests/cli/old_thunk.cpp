// SPDX-License-Identifier: BSD-3-Clause
// Stands for an old libhl-thunk: it has what every one has, each function fails, and nothing else is there.
#include "thunk/functions.h"

#include <cerrno>

#define FUNCTION(name)                                                                                                 \
    extern "C" __attribute__((visibility("default"))) long old_##name() __asm__("hlthunk_" #name);                     \
    long old_##name() {                                                                                                \
        errno = ENOENT;                                                                                                \
        return -ENOENT;                                                                                                \
    }
GAUDI_THUNK_REQUIRED(FUNCTION)
