/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions that older libraries lack. FAKE_TIME_SYNC_BYTES is the size that the library believes
 * hlthunk_time_sync_info to have; FAKE_WITHOUT_RECV leaves out one of the three functions of a capability.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script.h"
#include "thunk/abi.h"

#ifndef FAKE_TIME_SYNC_BYTES
#define FAKE_TIME_SYNC_BYTES 24
#endif

int hlthunk_get_time_sync_info(int fd, struct hlthunk_time_sync_info *info) {
    static const uint64_t times[] = {101, 102, 103, 104, 105, 106, 107, 108};
    volatile size_t size = FAKE_TIME_SYNC_BYTES; /* a real memcpy, which address checkers see */

    ENTER("get_time_sync_info", int, ARGUMENT(fd));
    memcpy((void *)info, times, size);
    return 0;
}

int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint64_t offset,
                                                  uint32_t flags) {
    ENTER("device_mapped_memory_export_dmabuf_fd", int, ARGUMENT(fd), addr, size, offset, flags);
    if (flags != (O_RDWR | O_CLOEXEC))
        return -EINVAL;
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

uint64_t hlthunk_host_memory_map_flags(int fd, void *host_virt_addr, uint64_t hint_addr, uint64_t host_size,
                                       uint32_t flags) {
    ENTER("host_memory_map_flags", uint64_t, ARGUMENT(fd), ARGUMENT(host_virt_addr), hint_addr, host_size, flags);
    return 0xFFF0000000002000;
}

int hlthunk_notifier_create(int fd) {
    ENTER("notifier_create", int, ARGUMENT(fd));
    return 81;
}

int hlthunk_notifier_release(int fd, int handle) {
    ENTER("notifier_release", int, ARGUMENT(fd), ARGUMENT(handle));
    return 0;
}

#ifndef FAKE_WITHOUT_RECV
int hlthunk_notifier_recv(int fd, int handle, uint64_t *notifier_events, uint64_t *notifier_cnt, uint32_t flags,
                          uint32_t timeout) {
    *notifier_cnt = 0;
    *notifier_events = ~0ULL;
    ENTER("notifier_recv", int, ARGUMENT(fd), ARGUMENT(handle), flags, timeout);
    *notifier_cnt = 2;
    *notifier_events = HL_NOTIFIER_EVENT_DEVICE_RESET | HL_NOTIFIER_EVENT_PAGE_FAULT;
    return 0;
}
#endif

int hlthunk_cs_flush_pci_hbw_writes(int fd) {
    ENTER("cs_flush_pci_hbw_writes", int, ARGUMENT(fd));
    return 0;
}

int hlthunk_get_event_record(int fd, enum hlthunk_event_record_id id, void *record) {
    static const size_t sizes[] = {
        sizeof(struct hlthunk_event_record_open_dev_time),   sizeof(struct hlthunk_event_record_cs_timeout),
        sizeof(struct hlthunk_event_record_razwi_event),     sizeof(struct hlthunk_event_record_undefined_opcode),
        sizeof(struct hlthunk_event_record_critical_hw_err), sizeof(struct hlthunk_event_record_critical_fw_err),
    };
    int64_t timestamp = 1000 + (int64_t)id;

    ENTER("get_event_record", int, ARGUMENT(fd), ARGUMENT(id));
    memset(record, 0x11, sizes[id]);
    memcpy(record, &timestamp, sizeof(timestamp));
    return 0;
}

int hlthunk_get_page_fault_info(int fd, struct hlthunk_page_fault_info *info, uint32_t num_of_alloc_entries) {
    info->num_of_mappings = 0xFFFFFFFF;
    ENTER("get_page_fault_info", int, ARGUMENT(fd), num_of_alloc_entries);
    info->timestamp = 77;
    info->addr = 0xbad000;
    info->engine_id = 12;
    info->num_of_mappings = fake_mappings;
    if (fake_mappings == 0xFFFFFFFF)
        return 0;
    if (fake_mappings > num_of_alloc_entries)
        return -ENOMEM;
    for (uint32_t i = 0; i < fake_mappings; i++)
        info->mappings[i] = (struct hlthunk_page_fault_mapping){.dev_va = i * 0x1000ULL, .size = 0x1000};
    return 0;
}

int hlthunk_open_by_module_id(uint32_t module_id) {
    ENTER("open_by_module_id", int, module_id);
    return 7;
}

char *hlthunk_get_version(void) {
    ENTER("get_version", char *, 0);
    return strdup("9.8.7-fake");
}

void hlthunk_free(void *ptr) { free(ptr); }

int hlthunk_request_command_buffer(int fd, uint32_t cb_size, uint64_t *cb_handle) {
    ENTER("request_command_buffer", int, ARGUMENT(fd), cb_size);
    *cb_handle = 0x1000000000001000;
    return 0;
}

int hlthunk_request_mapped_command_buffer(int fd, uint32_t cb_size, uint64_t *cb_handle) {
    ENTER("request_mapped_command_buffer", int, ARGUMENT(fd), cb_size);
    *cb_handle = 0x1000000000002000;
    return 0;
}

int hlthunk_get_mapped_cb_device_va_by_handle(int fd, uint64_t cb_handle, uint64_t *device_va) {
    ENTER("get_mapped_cb_device_va_by_handle", int, ARGUMENT(fd), cb_handle);
    *device_va = 0xFFF0000000003000;
    return 0;
}

int hlthunk_destroy_command_buffer(int fd, uint64_t cb_handle) {
    ENTER("destroy_command_buffer", int, ARGUMENT(fd), cb_handle);
    return 0;
}
