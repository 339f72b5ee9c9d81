// SPDX-License-Identifier: BSD-3-Clause
// The caller's side of the libuct functions that have no header in the wheels.
#pragma once

#include <uct/api/uct.h>

#include <cstddef>
#include <cstdint>

extern "C" {

struct MemoryAttributes {
    std::uint64_t field_mask; // 1 type, 2 device, 4 base, 8 length, 16 descriptor, 32 offset, 64 flags
    ucs_memory_type_t mem_type;
    ucs_sys_device_t sys_dev;
    void *base_address;
    std::size_t alloc_length;
    int dmabuf_fd;
    std::size_t dmabuf_offset;
    std::uint8_t mem_flags; // 1 is registrable
};
ucs_status_t uct_md_mem_query_v2(uct_md_h md, const void *address, std::size_t length, MemoryAttributes *attributes);

struct RegisterParams {
    std::uint64_t field_mask; // 1 flags, 2 descriptor, 4 offset, 8 type
    std::uint64_t flags;
    int dmabuf_fd;
    std::size_t dmabuf_offset;
    ucs_memory_type_t mem_type;
};
ucs_status_t uct_md_mem_reg_v2(uct_md_h md, void *address, std::size_t length, const RegisterParams *params,
                               uct_mem_h *memh);

struct DeregisterParams {
    std::uint64_t field_mask; // 1 handle, 2 flags, 4 completion
    unsigned flags;
    uct_mem_h memh;
    uct_completion_t *comp;
};
ucs_status_t uct_md_mem_dereg_v2(uct_md_h md, const DeregisterParams *params);

ucs_status_t uct_md_mem_alloc(uct_md_h md, std::size_t *length, void **address, ucs_memory_type_t type,
                              ucs_sys_device_t device, unsigned flags, const char *name, uct_mem_h *memh);
ucs_status_t uct_md_mem_free(uct_md_h md, uct_mem_h memh);

struct PackParams {
    std::uint64_t field_mask; // 1 flags
    unsigned flags;           // 1 invalidate RMA, 2 invalidate AMO, 4 export
};
ucs_status_t uct_md_mkey_pack_v2(uct_md_h md, uct_mem_h memh, void *address, std::size_t length,
                                 const PackParams *params, void *key);

struct AttachParams {
    std::uint64_t field_mask;
    std::uint64_t flags;
    std::size_t mkey_size;
};
ucs_status_t uct_md_mem_attach(uct_md_h md, const void *key, AttachParams *params, uct_mem_h *memh);

struct CompareParams {
    std::uint64_t field_mask;
};
ucs_status_t uct_rkey_compare(uct_component_h component, uct_rkey_t one, uct_rkey_t other, const CompareParams *params,
                              int *result);

struct PerfAttributes {
    std::uint64_t field_mask; // in the order of the members
    int operation;
    ucs_memory_type_t local_memory_type, remote_memory_type;
    ucs_sys_device_t local_sys_device, remote_sys_device;
    double send_pre_overhead, send_post_overhead, recv_overhead;
    uct_ppn_bandwidth_t bandwidth, path_bandwidth;
    ucs_linear_func_t latency;
    std::size_t max_inflight_eps;
    std::uint64_t flags;
};
ucs_status_t uct_iface_estimate_perf(uct_iface_h iface, PerfAttributes *attributes);

/// The fields of 1.23. In 1.22 there is no `max_get`, and the flags have its place and its bit.
struct InterfaceAttributes {
    std::uint64_t field_mask; // in the order of the members
    std::size_t max_put, max_get;
    std::uint64_t flags; // 1 put of lists, 2 get of lists
    std::uint64_t rest[8];
};
ucs_status_t uct_iface_query_v2(uct_iface_h iface, InterfaceAttributes *attributes);

using CopyListFunction = ucs_status_t(uct_ep_h ep, void *const *buffers, const std::size_t *lengths,
                                      const uct_mem_h *memhs, const std::uint64_t *remote_addresses,
                                      const uct_rkey_t *rkeys, const std::size_t *counts, const std::size_t *strides,
                                      std::size_t count, uct_completion_t *comp);
CopyListFunction uct_ep_put_sgl_zcopy;
[[gnu::weak]] CopyListFunction uct_ep_get_sgl_zcopy; // 1.23

} // extern "C"
