/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a test steers a fake libhl-thunk. Functions are named without their prefix.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FAKE_KEEP_ERRNO = -1 };

/* Forgets replies, counts and arguments. */
void fake_reset(void);

/* The next `times` calls of `function` return `rc`, with errno set to `err` unless that is FAKE_KEEP_ERRNO. */
void fake_reply(const char *function, int64_t rc, int err, int times);

/* The status that wait_for_cs reports. */
void fake_set_wait_status(uint32_t status);

int fake_calls(const char *function);
uint64_t fake_argument(const char *function, int index); /* of the last call */

#ifdef __cplusplus
}
#endif
