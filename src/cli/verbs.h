// SPDX-License-Identifier: BSD-3-Clause
// libibverbs, loaded at run time: most machines without a NIC have none.
#pragma once

#include "sentence.h"

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

// verbs.h makes macros of these names.
#undef ibv_query_port
#undef ibv_reg_mr

namespace gaudi::cli {

/// The functions of libibverbs, found by name: in what the process has preloaded, else in the system's library.
struct Verbs {
    ibv_device **(*get_device_list)(int *count) = nullptr;
    void (*free_device_list)(ibv_device **list) = nullptr;
    const char *(*get_device_name)(ibv_device *device) = nullptr;
    ibv_context *(*open_device)(ibv_device *device) = nullptr;
    int (*close_device)(ibv_context *context) = nullptr;
    int (*query_port)(ibv_context *context, std::uint8_t port, ibv_port_attr *attributes) = nullptr;
    int (*query_gid)(ibv_context *context, std::uint8_t port, int index, ibv_gid *gid) = nullptr;
    ibv_pd *(*alloc_pd)(ibv_context *context) = nullptr;
    int (*dealloc_pd)(ibv_pd *pd) = nullptr;
    ibv_cq *(*create_cq)(ibv_context *context, int entries, void *user, ibv_comp_channel *channel,
                         int vector) = nullptr;
    int (*destroy_cq)(ibv_cq *cq) = nullptr;
    ibv_qp *(*create_qp)(ibv_pd *pd, ibv_qp_init_attr *attributes) = nullptr;
    int (*destroy_qp)(ibv_qp *qp) = nullptr;
    int (*modify_qp)(ibv_qp *qp, ibv_qp_attr *attributes, int mask) = nullptr;
    ibv_mr *(*reg_mr)(ibv_pd *pd, void *address, std::size_t length, int access) = nullptr;
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd,
                             int access) = nullptr;
    int (*dereg_mr)(ibv_mr *mr) = nullptr;
};

OrSentence<Verbs> load_verbs();

} // namespace gaudi::cli
