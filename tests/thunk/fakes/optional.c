/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions that older libraries lack. FAKE_WITHOUT_FREE leaves out one of the two functions of a capability.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script.h"
#include "thunk/abi.h"

int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint64_t offset,
                                                  uint32_t flags) {
    ENTER("device_mapped_memory_export_dmabuf_fd", int, ARGUMENT(fd), addr, size, offset, flags);
    if (flags != (O_RDWR | O_CLOEXEC))
        return -EINVAL;
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

int hlthunk_cs_flush_pci_hbw_writes(int fd) {
    ENTER("cs_flush_pci_hbw_writes", int, ARGUMENT(fd));
    return 0;
}

int hlthunk_open_by_module_id(uint32_t module_id) {
    ENTER("open_by_module_id", int, module_id);
    return 7;
}

int hlthunk_notifier_create(int fd) {
    ENTER("notifier_create", int, ARGUMENT(fd));
    return 11;
}

int hlthunk_notifier_release(int fd, int handle) {
    ENTER("notifier_release", int, ARGUMENT(fd), ARGUMENT(handle));
    return 0;
}

int hlthunk_notifier_recv(int fd, int handle, uint64_t *notifier_events, uint64_t *notifier_cnt, uint32_t flags,
                          uint32_t timeout) {
    ENTER("notifier_recv", int, ARGUMENT(fd), ARGUMENT(handle), flags, timeout);
    *notifier_events = HL_NOTIFIER_EVENT_DEVICE_RESET;
    *notifier_cnt = 1;
    return 0;
}

char *hlthunk_get_version(void) {
    ENTER("get_version", char *, 0);
    return strdup("9.8.7-fake");
}

#ifndef FAKE_WITHOUT_FREE
void hlthunk_free(void *ptr) { free(ptr); }
#endif
