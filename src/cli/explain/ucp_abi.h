// SPDX-License-Identifier: BSD-3-Clause
// The part of UCP's public ABI that `ucx_gaudi explain` uses, for a libucp that is loaded at run time. A test compares it
// with the headers of a real UCX. UCP reads only the fields that a mask names, so later fields of its structures may lack here.
#pragma once

#include "ucx/abi_ucs.h"

#include <cstddef>
#include <cstdint>

namespace gaudi::cli::explain {

using ucx::ucs_memory_type_t;
using ucx::ucs_status_t;

// Objects that only UCP looks into.
struct ucp_config;
struct ucp_context;
struct ucp_worker;
struct ucp_ep;
struct ucp_mem;
struct ucp_rkey;
struct ucp_address;

struct UcpParams {
    static constexpr std::uint64_t kFeatures = 1 << 0;           // field
    static constexpr std::uint64_t kTag = 1 << 0, kRma = 1 << 1; // features

    std::uint64_t field_mask;
    std::uint64_t features;
    std::uint64_t unused[16];
};

struct UcpContextAttributes {
    static constexpr std::uint64_t kMemoryTypes = 1 << 2;

    std::uint64_t field_mask;
    std::size_t request_size;
    unsigned thread_mode;
    std::uint64_t memory_types;
    std::uint64_t unused[16];
};

struct UcpWorkerParams {
    std::uint64_t field_mask;
    std::uint64_t unused[40];
};

struct UcpEpParams {
    static constexpr std::uint64_t kRemoteAddress = 1 << 0;

    std::uint64_t field_mask;
    const ucp_address *address;
    std::uint64_t unused[24];
};

struct UcpMemMapParams {
    static constexpr std::uint64_t kAddress = 1 << 0, kLength = 1 << 1, kMemoryType = 1 << 4;

    std::uint64_t field_mask;
    void *address;
    std::size_t length;
    unsigned flags;
    unsigned protection;
    ucs_memory_type_t memory_type;
    std::uint64_t unused[8];
};

struct UcpRequestParam {
    static constexpr std::uint32_t kFlags = 1 << 4, kMemh = 1 << 8, kNoImmediateCompletion = 1 << 16; // of the mask
    static constexpr std::uint32_t kForceClose = 1 << 0;                                              // a flag

    std::uint32_t op_attr_mask;
    std::uint32_t flags;
    void *request;
    void *callback;
    std::uint64_t datatype;
    void *user_data;
    void *reply_buffer;
    ucs_memory_type_t memory_type;
    void *recv_info;
    ucp_mem *memh;
    std::uint64_t unused[16];
};

struct UcpRequestAttributes {
    static constexpr std::uint64_t kInfoString = 1 << 0, kInfoStringSize = 1 << 1;

    std::uint64_t field_mask;
    char *debug_string;
    std::size_t debug_string_size;
    ucs_status_t status;
    ucs_memory_type_t memory_type;
    std::uint64_t unused[8];
};

/// A request, nothing, or a status as a pointer.
using RequestPointer = void *;
inline bool is_request(RequestPointer pointer) {
    constexpr std::uintptr_t kLastError = static_cast<std::uintptr_t>(-100); // UCS_ERR_LAST
    return pointer && reinterpret_cast<std::uintptr_t>(pointer) < kLastError;
}
inline ucs_status_t status_in(RequestPointer pointer) {
    return static_cast<ucs_status_t>(static_cast<std::int8_t>(reinterpret_cast<std::intptr_t>(pointer)));
}

// X(function of libucp or libucs, type)
#define GAUDI_EXPLAIN_UCP(X)                                                                                           \
    X(ucs_status_string, const char *(ucs_status_t))                                                                   \
    X(ucp_get_version, void(unsigned *, unsigned *, unsigned *))                                                       \
    X(ucp_get_version_string, const char *())                                                                          \
    X(ucp_config_read, ucs_status_t(const char *, const char *, ucp_config **))                                        \
    X(ucp_config_release, void(ucp_config *))                                                                          \
    X(ucp_init_version, ucs_status_t(unsigned, unsigned, const UcpParams *, const ucp_config *, ucp_context **))       \
    X(ucp_cleanup, void(ucp_context *))                                                                                \
    X(ucp_context_query, ucs_status_t(ucp_context *, UcpContextAttributes *))                                          \
    X(ucp_worker_create, ucs_status_t(ucp_context *, const UcpWorkerParams *, ucp_worker **))                          \
    X(ucp_worker_destroy, void(ucp_worker *))                                                                          \
    X(ucp_worker_progress, unsigned(ucp_worker *))                                                                     \
    X(ucp_worker_get_address, ucs_status_t(ucp_worker *, ucp_address **, std::size_t *))                               \
    X(ucp_worker_release_address, void(ucp_worker *, ucp_address *))                                                   \
    X(ucp_ep_create, ucs_status_t(ucp_worker *, const UcpEpParams *, ucp_ep **))                                       \
    X(ucp_ep_close_nbx, RequestPointer(ucp_ep *, const UcpRequestParam *))                                             \
    X(ucp_ep_flush_nbx, RequestPointer(ucp_ep *, const UcpRequestParam *))                                             \
    X(ucp_mem_map, ucs_status_t(ucp_context *, const UcpMemMapParams *, ucp_mem **))                                   \
    X(ucp_mem_unmap, ucs_status_t(ucp_context *, ucp_mem *))                                                           \
    X(ucp_rkey_pack, ucs_status_t(ucp_context *, ucp_mem *, void **, std::size_t *))                                   \
    X(ucp_rkey_buffer_release, void(void *))                                                                           \
    X(ucp_ep_rkey_unpack, ucs_status_t(ucp_ep *, const void *, ucp_rkey **))                                           \
    X(ucp_rkey_destroy, void(ucp_rkey *))                                                                              \
    X(ucp_tag_send_nbx,                                                                                                \
      RequestPointer(ucp_ep *, const void *, std::size_t, std::uint64_t tag, const UcpRequestParam *))                 \
    X(ucp_tag_recv_nbx, RequestPointer(ucp_worker *, void *, std::size_t, std::uint64_t tag, std::uint64_t mask,       \
                                       const UcpRequestParam *))                                                       \
    X(ucp_put_nbx,                                                                                                     \
      RequestPointer(ucp_ep *, const void *, std::size_t, std::uint64_t, ucp_rkey *, const UcpRequestParam *))         \
    X(ucp_get_nbx, RequestPointer(ucp_ep *, void *, std::size_t, std::uint64_t, ucp_rkey *, const UcpRequestParam *))  \
    X(ucp_request_check_status, ucs_status_t(void *))                                                                  \
    X(ucp_request_query, ucs_status_t(void *, UcpRequestAttributes *))                                                 \
    X(ucp_request_free, void(void *))

} // namespace gaudi::cli::explain
