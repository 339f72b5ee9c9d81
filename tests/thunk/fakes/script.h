/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every function of the fake does first: note the call, and give the scripted reply if there is one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ARGUMENT(x) ((uint64_t)(x))

/* True when a reply was scripted; then *rc is what to return. A success leaves a misleading errno on purpose. */
bool fake_enter(const char *function, int64_t *rc, int count, const uint64_t *arguments);

#define ENTER(name, type, ...)                                                                                         \
    do {                                                                                                               \
        int64_t scripted_rc;                                                                                           \
        const uint64_t arguments[] = {__VA_ARGS__};                                                                    \
        if (fake_enter(name, &scripted_rc, (int)(sizeof(arguments) / sizeof(arguments[0])), arguments))                \
            return (type)scripted_rc;                                                                                  \
    } while (0)

extern uint32_t fake_wait_status;
