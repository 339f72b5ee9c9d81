// SPDX-License-Identifier: BSD-3-Clause
// Buffers on cards for programs that are not UCX, such as Python's ucx_gaudi.Buffer. The memory is of the same arena as that
// of UCX's allocations: each UCX of the process that has loaded the modules, earlier or later, recognises it.
//
// All functions return 0, or an errno and write a sentence to `problem`, which may be NULL. Any thread may call them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Allocates `length` bytes on a card. `device`: a module id, as N or module:N, or a bus id (N is an index of
/// GAUDI_MAPPING_TABLE where that is set); NULL or "auto" for a card that this process has open, else the one that
/// HLS_MODULE_ID names, else the first of HABANA_VISIBLE_MODULES (default: of all) that is free. ENODEV: there is no such
/// card, EBUSY: it is in use, ENOMEM: it is full, EINVAL: the length is 0.
int gaudi_buffer_allocate(const char *device, uint64_t length, void **address, char *problem, size_t problem_size);

/// Frees a buffer. EINVAL: no buffer starts at the address, EBUSY: a copy of another thread uses it.
int gaudi_buffer_free(void *address, char *problem, size_t problem_size);

/// Copies host memory to a buffer, or a part of it; when it returns, the copy has ended. EINVAL: the range is not inside one
/// buffer, ENOTSUP: the card has no copy path.
int gaudi_buffer_write(void *address, const void *host, uint64_t length, char *problem, size_t problem_size);

/// Copies a buffer, or a part of it, to host memory. As gaudi_buffer_write.
int gaudi_buffer_read(void *host, const void *address, uint64_t length, char *problem, size_t problem_size);

/// Sets each byte of a buffer, or of a part of it. As gaudi_buffer_write.
int gaudi_buffer_fill(void *address, int byte, uint64_t length, char *problem, size_t problem_size);

/// The bus id of the card of a buffer. EINVAL: the address is in no buffer, ERANGE: `bus_id` is too small.
int gaudi_buffer_card(const void *address, char *bus_id, size_t bus_id_size);

/// Makes what RDMA devices have written so far visible to the engines of the card that holds `address`, whichever program
/// allocated it; NULL: of all cards that this process has open. UCX's own copies need no such call. A kernel of a framework
/// does: call it after UCX has reported the receive or the remote put, and before the kernel is launched. EINVAL: the address
/// is in no Gaudi memory of this process. Another errno is that of the driver, and then nothing is known to be visible.
int gaudi_flush_rdma_writes(const void *address, char *problem, size_t problem_size);

#ifdef __cplusplus
}
#endif
