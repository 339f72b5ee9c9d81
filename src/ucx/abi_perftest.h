// SPDX-License-Identifier: BSD-3-Clause
// What ucx_perftest expects of a module that adds a memory type.
#pragma once

#include "abi_uct.h"

namespace gaudi::ucx {

struct ucx_perf_context; // its fields move between minor versions

struct ucx_perf_allocator {
    ucs_memory_type_t mem_type;
    ucs_status_t (*init)(ucx_perf_context *perf);
    ucs_status_t (*uct_alloc)(const ucx_perf_context *perf, std::size_t length, unsigned flags,
                              uct_allocated_memory *memory);
    void (*uct_free)(const ucx_perf_context *perf, uct_allocated_memory *memory);
    void (*memcpy)(void *target, ucs_memory_type_t target_type, const void *source, ucs_memory_type_t source_type,
                   std::size_t length);
    void *(*memset)(void *target, int value, std::size_t length);
};

/// The program's array of allocators, one per memory type.
constexpr const char *ucx_perf_allocators_symbol = "ucx_perf_mem_type_allocators";

/// The part of the program's context around the two buffers of a UCT test. uct_alloc gets a pointer to one of the
/// buffers and finds the domain from it, wherever the minor version has this part in its context.
struct ucx_perf_uct_part {
    uct_component_h cmpt;
    uct_md_h md;
    uct_worker_h worker;
    uct_iface_h iface;
    void *peers;
    uct_allocated_memory send_mem;
    uct_allocated_memory recv_mem;
};

} // namespace gaudi::ucx
