/* SPDX-License-Identifier: BSD-3-Clause */
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { MAX_FUNCTIONS = 64, MAX_ARGUMENTS = 6 };

struct entry {
    char function[64]; /* empty: not in use */
    int calls;
    uint64_t arguments[MAX_ARGUMENTS];
    int times; /* replies left */
    int64_t rc;
    int err;
};

static struct entry entries[MAX_FUNCTIONS];

uint32_t fake_wait_status;

static struct entry *entry_of(const char *function) {
    for (struct entry *e = entries; e < entries + MAX_FUNCTIONS; e++) {
        if (!e->function[0])
            snprintf(e->function, sizeof(e->function), "%s", function);
        if (!strcmp(e->function, function))
            return e;
    }
    abort();
}

bool fake_enter(const char *function, int64_t *rc, int count, const uint64_t *arguments) {
    struct entry *e = entry_of(function);

    e->calls++;
    memcpy(e->arguments, arguments, (size_t)count * sizeof(*arguments));
    if (!e->times) {
        errno = EXDEV;
        return false;
    }
    e->times--;
    *rc = e->rc;
    if (e->err != FAKE_KEEP_ERRNO)
        errno = e->err;
    return true;
}

void fake_reset(void) {
    memset(entries, 0, sizeof(entries));
    fake_wait_status = 0;
}

void fake_reply(const char *function, int64_t rc, int err, int times) {
    struct entry *e = entry_of(function);

    e->rc = rc;
    e->err = err;
    e->times = times;
}

void fake_set_wait_status(uint32_t status) { fake_wait_status = status; }

int fake_calls(const char *function) { return entry_of(function)->calls; }

uint64_t fake_argument(const char *function, int index) { return entry_of(function)->arguments[index]; }
