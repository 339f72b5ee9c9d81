/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program as its users write them: plain C, linked against libhl-thunk.so, knowing nothing of a software card.
 * Copies from the host to the card and back, and exits with 0 when every byte has arrived.
 */
#define _XOPEN_SOURCE 700

#include "thunk/abi.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 3 * 1024 * 1024 + 7, QUEUE_DOWN = 0, QUEUE_UP = 4 };

struct lin_dma {
    uint32_t size;
    uint32_t control;
    uint64_t source;
    uint64_t destination;
};

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int run(int fd, uint32_t queue, struct lin_dma *packet, uint64_t packet_address) {
    struct hl_cs_chunk chunk;
    struct hlthunk_cs_in in;
    struct hlthunk_cs_out out;
    uint32_t status = HL_WAIT_CS_STATUS_BUSY;

    memset(&chunk, 0, sizeof chunk);
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    chunk.cb_handle = packet_address;
    chunk.queue_index = queue;
    chunk.cb_size = sizeof *packet;
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    if (hlthunk_command_submission(fd, &in, &out) != 0)
        return failed("submission");
    while (status == HL_WAIT_CS_STATUS_BUSY)
        if (hlthunk_wait_for_cs(fd, out.seq, 5000000, &status) != 0)
            return failed("wait");
    return status == HL_WAIT_CS_STATUS_COMPLETED ? 0 : 1;
}

static int copy_both_ways(int fd) {
    unsigned char *out = malloc(BYTES), *back = calloc(1, BYTES);
    struct lin_dma packet;
    struct hlthunk_hw_ip_info info;
    uint64_t handle, device, from, to, commands;
    int i, result = 1;

    if (!out || !back || hlthunk_get_hw_ip_info(fd, &info) != 0)
        goto end;
    printf("%s, %llu MiB of DRAM\n", (const char *)info.card_name, (unsigned long long)info.dram_size >> 20);
    for (i = 0; i < BYTES; ++i)
        out[i] = (unsigned char)(i * 7 + i / 251);
    handle = hlthunk_device_memory_alloc(fd, BYTES, 0, true, false);
    device = hlthunk_device_memory_map(fd, handle, 0);
    from = hlthunk_host_memory_map(fd, out, 0, BYTES);
    to = hlthunk_host_memory_map(fd, back, 0, BYTES);
    commands = hlthunk_host_memory_map(fd, &packet, 0, sizeof packet);
    if (!handle || !device || !from || !to || !commands) {
        failed("memory");
        goto end;
    }
    packet.size = BYTES;
    packet.control = 0x09000000;
    packet.source = from;
    packet.destination = device;
    if (run(fd, QUEUE_DOWN, &packet, commands) != 0)
        goto end;
    packet.source = device;
    packet.destination = to;
    if (run(fd, QUEUE_UP, &packet, commands) != 0)
        goto end;
    if (memcmp(out, back, BYTES) != 0) {
        fprintf(stderr, "the bytes that came back are others\n");
        goto end;
    }
    if (hlthunk_memory_unmap(fd, commands) != 0 || hlthunk_memory_unmap(fd, to) != 0 ||
        hlthunk_memory_unmap(fd, from) != 0 || hlthunk_memory_unmap(fd, device) != 0 ||
        hlthunk_device_memory_free(fd, handle) != 0) {
        failed("release");
        goto end;
    }
    result = 0;
end:
    free(out);
    free(back);
    return result;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

int main(void) {
    char dir[] = "/dev/shm/softgaudi-test-XXXXXX"; /* a server of its own; the real library does not look at it */
    int fd, result;

    if (!mkdtemp(dir) || setenv("SOFTGAUDI_DIR", dir, 1) != 0)
        return failed(dir);
    fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, NULL);
    result = fd < 0 ? failed("open") : copy_both_ways(fd);
    if (fd >= 0 && hlthunk_close(fd) != 0)
        result = failed("close");
    nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return result;
}
