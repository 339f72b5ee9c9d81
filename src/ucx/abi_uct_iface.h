// SPDX-License-Identifier: BSD-3-Clause
// libuct's transports: interfaces and endpoints.
#pragma once

#include "abi_uct.h"

#include <sys/socket.h>
#include <sys/types.h>

namespace gaudi::ucx {

// ---- devices --------------------------------------------------------------------------------------------------------

enum uct_device_type_t : unsigned {
    UCT_DEVICE_TYPE_NET = 0,
    UCT_DEVICE_TYPE_SHM = 1,
    UCT_DEVICE_TYPE_ACC = 2,
    UCT_DEVICE_TYPE_SELF = 3,
};

struct uct_tl_device_resource {
    char name[UCT_DEVICE_NAME_MAX];
    uct_device_type_t type;
    ucs_sys_device_t sys_device;
};

// ---- what an interface can do ---------------------------------------------------------------------------------------

enum uct_iface_flags : std::uint64_t {
    UCT_IFACE_FLAG_PENDING = 1ull << 3,
    UCT_IFACE_FLAG_PUT_SHORT = 1ull << 4,
    UCT_IFACE_FLAG_PUT_BCOPY = 1ull << 5,
    UCT_IFACE_FLAG_PUT_ZCOPY = 1ull << 6,
    UCT_IFACE_FLAG_GET_SHORT = 1ull << 8,
    UCT_IFACE_FLAG_GET_BCOPY = 1ull << 9,
    UCT_IFACE_FLAG_GET_ZCOPY = 1ull << 10,
    UCT_IFACE_FLAG_ERRHANDLE_SHORT_BUF = 1ull << 32,
    UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF = 1ull << 34,
    UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM = 1ull << 36,
    UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE = 1ull << 38,
    UCT_IFACE_FLAG_EP_CHECK = 1ull << 39,
    UCT_IFACE_FLAG_CONNECT_TO_IFACE = 1ull << 40,
    UCT_IFACE_FLAG_CONNECT_TO_EP = 1ull << 41,
    UCT_IFACE_FLAG_CB_SYNC = 1ull << 44,
    UCT_IFACE_FLAG_CB_ASYNC = 1ull << 45,
    UCT_IFACE_FLAG_INTER_NODE = 1ull << 54,
};

enum uct_iface_event_flags : std::uint64_t {
    UCT_IFACE_FLAG_EVENT_SEND_COMP = 1u << 0,
    UCT_IFACE_FLAG_EVENT_RECV = 1u << 1,
    UCT_IFACE_FLAG_EVENT_RECV_SIG = 1u << 2,
    UCT_IFACE_FLAG_EVENT_FD = 1u << 3,
    UCT_IFACE_FLAG_EVENT_ASYNC_CB = 1u << 4,
};

/// The events for which a descriptor is armed.
enum uct_iface_event_types : unsigned {
    UCT_EVENT_SEND_COMP = 1u << 0,
    UCT_EVENT_RECV = 1u << 1,
    UCT_EVENT_RECV_SIG = 1u << 2,
};

enum uct_progress_types : unsigned {
    UCT_PROGRESS_SEND = 1u << 0,
    UCT_PROGRESS_RECV = 1u << 1,
    UCT_PROGRESS_THREAD_SAFE = 1u << 7,
};

enum uct_flush_flags : unsigned {
    UCT_FLUSH_FLAG_LOCAL = 0,
    UCT_FLUSH_FLAG_CANCEL = 1u << 0,
    UCT_FLUSH_FLAG_REMOTE = 1u << 1,
};

struct uct_ppn_bandwidth {
    double dedicated;
    double shared;
};

struct uct_iface_rma_limits {
    std::size_t max_short;
    std::size_t max_bcopy;
    std::size_t min_zcopy;
    std::size_t max_zcopy;
    std::size_t opt_zcopy_align;
    std::size_t align_mtu;
    std::size_t max_iov;
};

struct uct_iface_attr {
    struct {
        uct_iface_rma_limits put;
        uct_iface_rma_limits get;
        std::uint64_t am_and_tag[19]; // limits of messages, which a copy transport does not have
        struct {
            std::uint64_t op_flags;
            std::uint64_t fop_flags;
        } atomic32, atomic64;
        std::uint64_t flags;
        std::uint64_t event_flags;
    } cap;
    std::size_t device_addr_len;
    std::size_t iface_addr_len;
    std::size_t ep_addr_len;
    std::size_t max_conn_priv;
    sockaddr_storage listen_sockaddr;
    double overhead;
    uct_ppn_bandwidth bandwidth;
    ucs_linear_func latency;
    std::uint8_t priority;
    std::size_t max_num_eps;
    unsigned dev_num_paths;
    ucs_sys_device_t ctl_device;
};

enum uct_iface_attr_v2_field : std::uint64_t {
    UCT_IFACE_ATTR_FIELD_MAX_PUT_SGL_ZCOPY_COUNT = 1u << 0,
    UCT_IFACE_ATTR_FIELD_CAP_FLAGS = 1u << 1,
};

enum uct_iface_flags_v2 : std::uint64_t {
    UCT_IFACE_FLAG_V2_PUT_SGL_ZCOPY = 1u << 0,
};

/// UCX has more fields after these. Only those of the mask may be touched.
struct uct_iface_attr_v2 {
    std::uint64_t field_mask;
    std::size_t max_put_sgl_zcopy_count;
    struct {
        std::uint64_t flags;
    } cap;
};

/// The same in 1.23, which has uct_ep_get_sgl_zcopy: a field and a flag were inserted.
namespace v1_23 {

enum uct_iface_attr_v2_field : std::uint64_t {
    UCT_IFACE_ATTR_FIELD_MAX_PUT_SGL_ZCOPY_COUNT = 1u << 0,
    UCT_IFACE_ATTR_FIELD_MAX_GET_SGL_ZCOPY_COUNT = 1u << 1,
    UCT_IFACE_ATTR_FIELD_CAP_FLAGS = 1u << 2,
};

enum uct_iface_flags_v2 : std::uint64_t {
    UCT_IFACE_FLAG_V2_PUT_SGL_ZCOPY = 1u << 0,
    UCT_IFACE_FLAG_V2_GET_SGL_ZCOPY = 1u << 1,
};

struct uct_iface_attr_v2 {
    std::uint64_t field_mask;
    std::size_t max_put_sgl_zcopy_count;
    std::size_t max_get_sgl_zcopy_count;
    struct {
        std::uint64_t flags;
    } cap;
};

} // namespace v1_23

// ---- performance ----------------------------------------------------------------------------------------------------

enum uct_ep_operation_t : unsigned {
    UCT_EP_OP_AM_SHORT = 0,
    UCT_EP_OP_AM_BCOPY = 1,
    UCT_EP_OP_AM_ZCOPY = 2,
    UCT_EP_OP_PUT_SHORT = 3,
    UCT_EP_OP_PUT_BCOPY = 4,
    UCT_EP_OP_PUT_ZCOPY = 5,
    UCT_EP_OP_GET_SHORT = 6,
    UCT_EP_OP_GET_BCOPY = 7,
    UCT_EP_OP_GET_ZCOPY = 8,
};

enum uct_perf_attr_field : std::uint64_t {
    UCT_PERF_ATTR_FIELD_OPERATION = 1u << 0,
    UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE = 1u << 1,
    UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE = 1u << 2,
    UCT_PERF_ATTR_FIELD_LOCAL_SYS_DEVICE = 1u << 3,
    UCT_PERF_ATTR_FIELD_REMOTE_SYS_DEVICE = 1u << 4,
    UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD = 1u << 5,
    UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD = 1u << 6,
    UCT_PERF_ATTR_FIELD_RECV_OVERHEAD = 1u << 7,
    UCT_PERF_ATTR_FIELD_BANDWIDTH = 1u << 8,
    UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH = 1u << 9,
    UCT_PERF_ATTR_FIELD_LATENCY = 1u << 10,
    UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS = 1u << 11,
    UCT_PERF_ATTR_FIELD_FLAGS = 1u << 12,
};

/// UCP sets the fields up to the devices, the transport the others; either touches only the fields of the mask.
struct uct_perf_attr {
    std::uint64_t field_mask;
    uct_ep_operation_t operation;
    ucs_memory_type_t local_memory_type;
    ucs_memory_type_t remote_memory_type;
    ucs_sys_device_t local_sys_device;
    ucs_sys_device_t remote_sys_device;
    double send_pre_overhead;
    double send_post_overhead;
    double recv_overhead;
    uct_ppn_bandwidth bandwidth;
    uct_ppn_bandwidth path_bandwidth;
    ucs_linear_func latency;
    std::size_t max_inflight_eps;
    std::uint64_t flags;
};

// ---- opening and connecting -----------------------------------------------------------------------------------------

using uct_error_handler_t = ucs_status_t (*)(void *arg, uct_ep_h ep, ucs_status_t status);

enum uct_iface_params_field : std::uint64_t {
    UCT_IFACE_PARAM_FIELD_CPU_MASK = 1u << 0,
    UCT_IFACE_PARAM_FIELD_OPEN_MODE = 1u << 1,
    UCT_IFACE_PARAM_FIELD_DEVICE = 1u << 2,
    UCT_IFACE_PARAM_FIELD_RX_HEADROOM = 1u << 5,
    UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG = 1u << 6,
    UCT_IFACE_PARAM_FIELD_ERR_HANDLER = 1u << 7,
    UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS = 1u << 8,
    UCT_IFACE_PARAM_FIELD_FEATURES = 1u << 18,
};

struct uct_iface_params {
    std::uint64_t field_mask;
    ucs_cpu_set cpu_mask;
    std::uint64_t open_mode;
    union {
        struct {
            const char *tl_name;
            const char *dev_name;
        } device;
        std::uint64_t sockaddr[5];
    } mode;
    void *stats_root;
    std::size_t rx_headroom;
    void *err_handler_arg;
    uct_error_handler_t err_handler;
    std::uint32_t err_handler_flags;
    std::uint64_t tag_and_async[6];
    std::uint64_t keepalive_interval;
    std::size_t am_alignment;
    std::size_t am_align_offset;
    std::uint64_t features;
};

/// The configuration of every transport begins with it.
struct uct_iface_config {
    struct {
        uct_alloc_method_t *methods;
        unsigned count;
    } alloc_methods;
    int failure;
    std::size_t max_num_eps;
};

enum uct_ep_params_field : std::uint64_t {
    UCT_EP_PARAM_FIELD_IFACE = 1u << 0,
    UCT_EP_PARAM_FIELD_USER_DATA = 1u << 1,
    UCT_EP_PARAM_FIELD_DEV_ADDR = 1u << 2,
    UCT_EP_PARAM_FIELD_IFACE_ADDR = 1u << 3,
    UCT_EP_PARAM_FIELD_PATH_INDEX = 1u << 12,
};

struct uct_ep_params {
    std::uint64_t field_mask;
    uct_iface_h iface;
    void *user_data;
    const uct_device_addr *dev_addr;
    const uct_iface_addr *iface_addr;
    std::uint64_t sockaddr[8];
    unsigned path_index;
    std::uint64_t rest[6];
};

enum uct_iface_reachability_scope_t : unsigned {
    UCT_IFACE_REACHABILITY_SCOPE_DEVICE = 0,
    UCT_IFACE_REACHABILITY_SCOPE_NETWORK = 1, // the default
};

enum uct_iface_is_reachable_field : std::uint64_t {
    UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR = 1u << 0,
    UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR = 1u << 1,
    UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING = 1u << 2,
    UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH = 1u << 3,
    UCT_IFACE_IS_REACHABLE_FIELD_SCOPE = 1u << 4,
    UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR_LENGTH = 1u << 5,
    UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR_LENGTH = 1u << 6,
};

struct uct_iface_is_reachable_params {
    std::uint64_t field_mask;
    const uct_device_addr *device_addr;
    const uct_iface_addr *iface_addr;
    char *info_string;
    std::size_t info_string_length;
    uct_iface_reachability_scope_t scope;
    std::size_t device_addr_length;
    std::size_t iface_addr_length;
};

enum uct_ep_is_connected_field : std::uint64_t {
    UCT_EP_IS_CONNECTED_FIELD_DEVICE_ADDR = 1u << 0,
    UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR = 1u << 1,
    UCT_EP_IS_CONNECTED_FIELD_EP_ADDR = 1u << 2,
};

struct uct_ep_is_connected_params {
    std::uint64_t field_mask;
    const uct_device_addr *device_addr;
    const uct_iface_addr *iface_addr;
    const uct_ep_addr *ep_addr;
};

// ---- the tables -----------------------------------------------------------------------------------------------------

using uct_pack_callback_t = std::size_t (*)(void *target, void *arg);
using uct_unpack_callback_t = void (*)(void *arg, const void *data, std::size_t length);

/// Copies a list: element i is `lengths[i]` bytes, or, where there are `counts` and `strides`, `counts[i]` blocks of so many
/// bytes whose starts are `strides[i]` apart, at both ends.
using uct_ep_sgl_zcopy_func_t = ucs_status_t (*)(uct_ep_h ep, void *const *buffers, const std::size_t *lengths,
                                                 const uct_mem_h *memhs, const std::uint64_t *remote_addresses,
                                                 const uct_rkey_t *rkeys, const std::size_t *counts,
                                                 const std::size_t *strides, std::size_t count, uct_completion *comp);

struct uct_iface_ops {
    ucs_status_t (*ep_put_short)(uct_ep_h ep, const void *buffer, unsigned length, std::uint64_t remote_address,
                                 uct_rkey_t rkey);
    ssize_t (*ep_put_bcopy)(uct_ep_h ep, uct_pack_callback_t pack, void *arg, std::uint64_t remote_address,
                            uct_rkey_t rkey);
    ucs_status_t (*ep_put_zcopy)(uct_ep_h ep, const uct_iov *iov, std::size_t iovcnt, std::uint64_t remote_address,
                                 uct_rkey_t rkey, uct_completion *comp);
    ucs_status_t (*ep_get_short)(uct_ep_h ep, void *buffer, unsigned length, std::uint64_t remote_address,
                                 uct_rkey_t rkey);
    ucs_status_t (*ep_get_bcopy)(uct_ep_h ep, uct_unpack_callback_t unpack, void *arg, std::size_t length,
                                 std::uint64_t remote_address, uct_rkey_t rkey, uct_completion *comp);
    ucs_status_t (*ep_get_zcopy)(uct_ep_h ep, const uct_iov *iov, std::size_t iovcnt, std::uint64_t remote_address,
                                 uct_rkey_t rkey, uct_completion *comp);
    uct_unused_op am_atomic_tag[18];
    ucs_status_t (*ep_pending_add)(uct_ep_h ep, uct_pending_req *request, unsigned flags);
    void (*ep_pending_purge)(uct_ep_h ep, uct_pending_purge_callback_t callback, void *arg);
    ucs_status_t (*ep_flush)(uct_ep_h ep, unsigned flags, uct_completion *comp);
    ucs_status_t (*ep_fence)(uct_ep_h ep, unsigned flags);
    ucs_status_t (*ep_check)(uct_ep_h ep, unsigned flags, uct_completion *comp);
    ucs_status_t (*ep_create)(const uct_ep_params *params, uct_ep_h *ep);
    uct_unused_op ep_connect;
    uct_unused_op ep_disconnect;
    uct_unused_op cm_ep_conn_notify;
    void (*ep_destroy)(uct_ep_h ep);
    ucs_status_t (*ep_get_address)(uct_ep_h ep, uct_ep_addr *address);
    ucs_status_t (*ep_connect_to_ep)(uct_ep_h ep, const uct_device_addr *device_address, const uct_ep_addr *ep_address);
    uct_unused_op iface_accept;
    uct_unused_op iface_reject;
    ucs_status_t (*iface_flush)(uct_iface_h iface, unsigned flags, uct_completion *comp);
    ucs_status_t (*iface_fence)(uct_iface_h iface, unsigned flags);
    void (*iface_progress_enable)(uct_iface_h iface, unsigned flags);
    void (*iface_progress_disable)(uct_iface_h iface, unsigned flags);
    unsigned (*iface_progress)(uct_iface_h iface);
    ucs_status_t (*iface_event_fd_get)(uct_iface_h iface, int *fd);
    ucs_status_t (*iface_event_arm)(uct_iface_h iface, unsigned events);
    void (*iface_close)(uct_iface_h iface);
    ucs_status_t (*iface_query)(uct_iface_h iface, uct_iface_attr *attr);
    ucs_status_t (*iface_get_device_address)(uct_iface_h iface, uct_device_addr *address);
    ucs_status_t (*iface_get_address)(uct_iface_h iface, uct_iface_addr *address);
    int (*iface_is_reachable)(uct_iface_h iface, const uct_device_addr *device_address,
                              const uct_iface_addr *iface_address);
};

/// 1.22 has the slots up to ep_put_sgl_zcopy, 1.23 two more. The rest is spare, as in uct_md_ops.
struct uct_iface_internal_ops {
    ucs_status_t (*iface_query_v2)(uct_iface_h iface, uct_iface_attr_v2 *attr);
    ucs_status_t (*iface_estimate_perf)(uct_iface_h iface, uct_perf_attr *attr);
    void (*iface_vfs_refresh)(uct_iface_h iface);
    uct_unused_op ep_query; // its argument differs between minor versions
    uct_unused_op ep_invalidate;
    uct_unused_op ep_connect_to_ep_v2;
    int (*iface_is_reachable_v2)(uct_iface_h iface, const uct_iface_is_reachable_params *params);
    int (*ep_is_connected)(uct_ep_h ep, const uct_ep_is_connected_params *params);
    uct_unused_op ep_get_device_ep;
    uct_ep_sgl_zcopy_func_t ep_put_sgl_zcopy;
    uct_ep_sgl_zcopy_func_t ep_get_sgl_zcopy;
    uct_unused_op ep_outstanding_purge;
    uct_unused_op spare[4];
};

struct uct_iface {
    uct_iface_ops ops;
};

struct uct_ep {
    uct_iface_h iface;
};

/// uct_base_iface_t_init fills it, and libuct writes to it later.
struct uct_base_iface {
    uct_iface super;
    uct_iface_internal_ops *internal_ops;
    uct_md_h md;
    uct_priv_worker *worker;
    struct {
        void *cb;
        void *arg;
        std::uint32_t flags;
    } am[32];
    void *am_tracer;
    void *am_tracer_arg;
    uct_error_handler_t err_handler;
    void *err_handler_arg;
    std::uint32_t err_handler_flags;
    uct_worker_progress prog;
    unsigned progress_flags;
    struct {
        unsigned num_alloc_methods;
        uct_alloc_method_t alloc_methods[UCT_ALLOC_METHOD_LAST];
        ucs_log_level_t failure_level;
        std::size_t max_num_eps;
    } config;
};

struct uct_tl {
    char name[UCT_TL_NAME_MAX];
    // UCX frees the array with ucs_free.
    ucs_status_t (*query_devices)(uct_md_h md, uct_tl_device_resource **devices, unsigned *count);
    ucs_status_t (*iface_open)(uct_md_h md, uct_worker_h worker, const uct_iface_params *params,
                               const uct_iface_config *config, uct_iface_h *iface);
    ucs_config_global_list_entry config;
    ucs_list_link list;
};

} // namespace gaudi::ucx
