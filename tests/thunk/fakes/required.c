/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions that every libhl-thunk has. FAKE_WITHOUT_WAIT leaves one out; FAKE_OPEN_STATS_BYTES is the size that the
 * library believes hlthunk_open_stats_info to have.
 */
#include <string.h>

#include "script.h"
#include "thunk/abi.h"

#ifndef FAKE_OPEN_STATS_BYTES
#define FAKE_OPEN_STATS_BYTES 24
#endif

int hlthunk_open(enum hlthunk_device_name name, const char *busid) {
    ENTER("open", int, ARGUMENT(name), ARGUMENT(busid != NULL));
    return 71;
}

int hlthunk_open_control(int dev_id, const char *busid) {
    ENTER("open_control", int, ARGUMENT(dev_id), ARGUMENT(busid != NULL));
    return 72;
}

int hlthunk_close(int fd) {
    ENTER("close", int, ARGUMENT(fd));
    return 0;
}

int hlthunk_get_pci_bus_id_from_fd(int fd, char *pci_bus_id, int len) {
    ENTER("get_pci_bus_id_from_fd", int, ARGUMENT(fd), ARGUMENT(len));
    strncpy(pci_bus_id, "0000:19:00.0", (size_t)len);
    return 0;
}

int hlthunk_get_hw_ip_info(int fd, struct hlthunk_hw_ip_info *info) {
    ENTER("get_hw_ip_info", int, ARGUMENT(fd));
    info->device_id = HL_PCI_ID_GAUDI2;
    info->module_id = 3;
    info->reserved_dram_size = 768ULL << 20; /* the last field */
    return 0;
}

int hlthunk_get_device_status_info(int fd) {
    ENTER("get_device_status_info", enum hl_device_status, ARGUMENT(fd));
    return HL_DEVICE_STATUS_OPERATIONAL;
}

int hlthunk_get_open_stats(int fd, struct hlthunk_open_stats_info *info) {
    unsigned char filled[64] = {0};
    volatile size_t size = FAKE_OPEN_STATS_BYTES; /* a real memcpy, which address checkers see */
    const struct hlthunk_open_stats_info stats = {
        .open_counter = 5, .is_compute_ctx_active = 1, .compute_ctx_has_mapped_resources = 1};

    ENTER("get_open_stats", int, ARGUMENT(fd));
    memcpy(filled, &stats, sizeof(stats));
    memcpy((void *)info, filled, size);
    return 0;
}

int hlthunk_get_dram_usage(int fd, struct hlthunk_dram_usage_info *info) {
    ENTER("get_dram_usage", int, ARGUMENT(fd));
    info->dram_free_mem = 1000;
    info->ctx_dram_mem = 24;
    return 0;
}

int hlthunk_get_reset_count_info(int fd, struct hlthunk_reset_count_info *info) {
    ENTER("get_reset_count_info", int, ARGUMENT(fd));
    info->hard_reset_count = 2;
    info->soft_reset_count = 9;
    return 0;
}

uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool contiguous, bool shared) {
    ENTER("device_memory_alloc", uint64_t, ARGUMENT(fd), size, page_size, ARGUMENT(contiguous), ARGUMENT(shared));
    return 1;
}

int hlthunk_device_memory_free(int fd, uint64_t handle) {
    ENTER("device_memory_free", int, ARGUMENT(fd), handle);
    return 0;
}

uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint_addr) {
    ENTER("device_memory_map", uint64_t, ARGUMENT(fd), handle, hint_addr);
    return 0x1001001800000000;
}

uint64_t hlthunk_host_memory_map(int fd, void *host_virt_addr, uint64_t hint_addr, uint64_t host_size) {
    ENTER("host_memory_map", uint64_t, ARGUMENT(fd), ARGUMENT(host_virt_addr), hint_addr, host_size);
    return 0xFFF0000000001000;
}

int hlthunk_memory_unmap(int fd, uint64_t device_virt_addr) {
    ENTER("memory_unmap", int, ARGUMENT(fd), device_virt_addr);
    return 0;
}

int hlthunk_command_submission(int fd, struct hlthunk_cs_in *in, struct hlthunk_cs_out *out) {
    ENTER("command_submission", int, ARGUMENT(fd), ARGUMENT(in->chunks_execute), in->num_chunks_execute, in->flags,
          ARGUMENT(in->chunks_restore), in->num_chunks_restore);
    out->seq = 41;
    return 0;
}

#ifndef FAKE_WITHOUT_WAIT
int hlthunk_wait_for_cs(int fd, uint64_t seq, uint64_t timeout_us, uint32_t *status) {
    *status = fake_wait_status; /* before a scripted failure too: there it is garbage, as in the real library */
    ENTER("wait_for_cs", int, ARGUMENT(fd), seq, timeout_us);
    return 0;
}
#endif
