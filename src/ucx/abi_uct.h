// SPDX-License-Identifier: BSD-3-Clause
// What both sides of libuct's module ABI, memory domains and transports, have in common.
#pragma once

#include "abi_ucs.h"

namespace gaudi::ucx {

struct uct_component;
struct uct_md;
struct uct_iface;
struct uct_ep;
struct uct_worker;
struct uct_cm;
struct uct_cm_config;
struct uct_completion;
struct uct_pending_req;

// Addresses and keys are bytes whose meaning only the transport knows.
struct uct_device_addr;
struct uct_iface_addr;
struct uct_ep_addr;

using uct_component_h = uct_component *;
using uct_md_h = uct_md *;
using uct_iface_h = uct_iface *;
using uct_ep_h = uct_ep *;
using uct_worker_h = uct_worker *;
using uct_mem_h = void *;
using uct_rkey_t = std::uintptr_t;

constexpr uct_rkey_t UCT_INVALID_RKEY = static_cast<uct_rkey_t>(-1);
constexpr int UCT_DMABUF_FD_INVALID = -1;

constexpr std::size_t UCT_COMPONENT_NAME_MAX = 16; // all with the final NUL
constexpr std::size_t UCT_MD_NAME_MAX = 16;
constexpr std::size_t UCT_TL_NAME_MAX = 10;
constexpr std::size_t UCT_DEVICE_NAME_MAX = 32;

/// A slot for an operation that we never provide: its arguments do not matter, see edge.h.
using uct_unused_op = void (*)();

using uct_completion_callback_t = void (*)(uct_completion *self);

struct uct_completion {
    uct_completion_callback_t func; // called when count reaches zero
    int count;
    ucs_status_t status; // the first error wins
};

struct uct_iov {
    void *buffer;
    std::size_t length;
    uct_mem_h memh;
    std::size_t stride;
    unsigned count;
};

using uct_pending_callback_t = ucs_status_t (*)(uct_pending_req *self);
using uct_pending_purge_callback_t = void (*)(uct_pending_req *self, void *arg);

constexpr std::size_t UCT_PENDING_REQ_PRIV_LEN = 40;

struct uct_pending_req {
    uct_pending_callback_t func;
    char priv[UCT_PENDING_REQ_PRIV_LEN]; // for the transport, while it holds the request
};

struct uct_worker {
    ucs_callbackq progress_q;
};

struct uct_priv_worker {
    uct_worker super;
    ucs_async_context *async;
    ucs_thread_mode_t thread_mode;
    ucs_list_link tl_data;
};

using uct_worker_cb_id_t = int;

struct uct_worker_progress {
    uct_worker_cb_id_t id;
    std::uint32_t refcount;
};

enum uct_alloc_method_t : unsigned {
    UCT_ALLOC_METHOD_THP = 0,
    UCT_ALLOC_METHOD_MD = 1,
    UCT_ALLOC_METHOD_HEAP = 2,
    UCT_ALLOC_METHOD_MMAP = 3,
    UCT_ALLOC_METHOD_HUGE = 4,
    UCT_ALLOC_METHOD_LAST = 5,
};

struct uct_allocated_memory {
    void *address;
    std::size_t length;
    uct_alloc_method_t method;
    ucs_memory_type_t mem_type;
    uct_md_h md;
    uct_mem_h memh;
    ucs_sys_device_t sys_device;
};

} // namespace gaudi::ucx
