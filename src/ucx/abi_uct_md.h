// SPDX-License-Identifier: BSD-3-Clause
// libuct's components and memory domains.
#pragma once

#include "abi_uct.h"

namespace gaudi::ucx {

// ---- what a domain can do -------------------------------------------------------------------------------------------

enum uct_md_flags : std::uint64_t {
    UCT_MD_FLAG_ALLOC = 1u << 0,
    UCT_MD_FLAG_REG = 1u << 1,
    UCT_MD_FLAG_NEED_MEMH = 1u << 2,
    UCT_MD_FLAG_NEED_RKEY = 1u << 3,
    UCT_MD_FLAG_ADVISE = 1u << 4,
    UCT_MD_FLAG_FIXED = 1u << 5,
    UCT_MD_FLAG_RKEY_PTR = 1u << 6,
    UCT_MD_FLAG_SOCKADDR = 1u << 7,
    UCT_MD_FLAG_INVALIDATE = 1u << 8,
    UCT_MD_FLAG_EXPORTED_MKEY = 1u << 9,
    UCT_MD_FLAG_REG_DMABUF = 1u << 10,
    UCT_MD_FLAG_INVALIDATE_RMA = 1u << 11,
    UCT_MD_FLAG_INVALIDATE_AMO = 1u << 12,
    UCT_MD_FLAG_MEMTYPE_COPY = 1u << 13,
};

/// libuct zeroes it and sets the mask of all fields before it calls a domain's query().
struct uct_md_attr_v2 {
    std::uint64_t field_mask;
    std::uint64_t max_alloc;
    std::size_t max_reg;
    std::uint64_t flags;
    std::uint64_t reg_mem_types;
    std::uint64_t reg_nonblock_mem_types;
    std::uint64_t cache_mem_types;
    std::uint64_t gva_mem_types;
    std::uint64_t detect_mem_types;
    std::uint64_t alloc_mem_types;
    std::uint64_t access_mem_types;
    std::uint64_t dmabuf_mem_types;
    ucs_linear_func reg_cost;
    char component_name[UCT_COMPONENT_NAME_MAX];
    std::size_t rkey_packed_size;
    ucs_cpu_set local_cpus;
    std::size_t exported_mkey_packed_size;
    char global_id[256];
    std::size_t reg_alignment;
    std::uint8_t required_mem_flags;
};

// ---- memory ---------------------------------------------------------------------------------------------------------

enum uct_md_mem_flags : unsigned {
    UCT_MD_MEM_FLAG_NONBLOCK = 1u << 0,
    UCT_MD_MEM_FLAG_FIXED = 1u << 1,
    UCT_MD_MEM_FLAG_LOCK = 1u << 2,
    UCT_MD_MEM_FLAG_HIDE_ERRORS = 1u << 3,
    UCT_MD_MEM_ACCESS_REMOTE_PUT = 1u << 5,
    UCT_MD_MEM_ACCESS_REMOTE_GET = 1u << 6,
    UCT_MD_MEM_ACCESS_REMOTE_ATOMIC = 1u << 7,
    UCT_MD_MEM_ACCESS_LOCAL_READ = 1u << 8,
    UCT_MD_MEM_ACCESS_LOCAL_WRITE = 1u << 9,
    UCT_MD_MEM_SYMMETRIC_RKEY = 1u << 10,
    UCT_MD_MEM_GVA = 1u << 11,
    UCT_MD_MEM_ACCESS_RMA = UCT_MD_MEM_ACCESS_REMOTE_PUT | UCT_MD_MEM_ACCESS_REMOTE_GET | UCT_MD_MEM_ACCESS_LOCAL_READ |
                            UCT_MD_MEM_ACCESS_LOCAL_WRITE,
    UCT_MD_MEM_ACCESS_ALL = UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_ACCESS_REMOTE_ATOMIC,
};

enum uct_md_mem_attr_field : std::uint64_t {
    UCT_MD_MEM_ATTR_FIELD_MEM_TYPE = 1u << 0,
    UCT_MD_MEM_ATTR_FIELD_SYS_DEV = 1u << 1,
    UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS = 1u << 2,
    UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH = 1u << 3,
    UCT_MD_MEM_ATTR_FIELD_DMABUF_FD = 1u << 4,
    UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET = 1u << 5,
    UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS = 1u << 6,
};

struct uct_md_mem_attr_v2 {
    std::uint64_t field_mask;
    ucs_memory_type_t mem_type;
    ucs_sys_device_t sys_dev;
    void *base_address;
    std::size_t alloc_length;
    int dmabuf_fd; // the caller closes it
    std::size_t dmabuf_offset;
    std::uint8_t mem_flags;
};

enum uct_md_mem_reg_field : std::uint64_t {
    UCT_MD_MEM_REG_FIELD_FLAGS = 1u << 0,
    UCT_MD_MEM_REG_FIELD_DMABUF_FD = 1u << 1,
    UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET = 1u << 2,
    UCT_MD_MEM_REG_FIELD_MEM_TYPE = 1u << 3,
};

struct uct_md_mem_reg_params {
    std::uint64_t field_mask;
    std::uint64_t flags; // uct_md_mem_flags
    int dmabuf_fd;
    std::size_t dmabuf_offset;
    ucs_memory_type_t mem_type;
};

enum uct_md_mem_dereg_field : std::uint64_t {
    UCT_MD_MEM_DEREG_FIELD_MEMH = 1u << 0,
    UCT_MD_MEM_DEREG_FIELD_FLAGS = 1u << 1,
    UCT_MD_MEM_DEREG_FIELD_COMPLETION = 1u << 2,
};

constexpr unsigned UCT_MD_MEM_DEREG_FLAG_INVALIDATE = 1u << 0;

struct uct_md_mem_dereg_params {
    std::uint64_t field_mask;
    unsigned flags;
    uct_mem_h memh;
    uct_completion *comp;
};

// ---- keys -----------------------------------------------------------------------------------------------------------

constexpr std::uint64_t UCT_MD_MKEY_PACK_FIELD_FLAGS = 1u << 0;

enum uct_md_mkey_pack_flags : unsigned {
    UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA = 1u << 0,
    UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO = 1u << 1,
    UCT_MD_MKEY_PACK_FLAG_EXPORT = 1u << 2,
};

struct uct_md_mkey_pack_params {
    std::uint64_t field_mask;
    unsigned flags;
};

enum uct_md_mem_attach_field : std::uint64_t {
    UCT_MD_MEM_ATTACH_FIELD_FLAGS = 1u << 0,
    UCT_MD_MEM_ATTACH_FIELD_MKEY_SIZE = 1u << 1,
};

constexpr std::uint64_t UCT_MD_MEM_ATTACH_FLAG_HIDE_ERRORS = 1u << 0;

struct uct_md_mem_attach_params {
    std::uint64_t field_mask;
    std::uint64_t flags;
    std::size_t mkey_size;
};

struct uct_rkey_unpack_params {
    std::uint64_t field_mask;
    ucs_sys_device_t sys_device;
};

struct uct_rkey_compare_params {
    std::uint64_t field_mask;
};

// ---- the tables -----------------------------------------------------------------------------------------------------

struct uct_md_resource_desc {
    char md_name[UCT_MD_NAME_MAX];
};

struct uct_md_config; // only the domain knows its fields

/// 1.22.0 has the slots up to mem_elem_pack, later versions mem_elem_release as well. The rest is spare: a newer libuct
/// may call a slot there, and must find a function that answers "unsupported".
struct uct_md_ops {
    void (*close)(uct_md_h md);
    ucs_status_t (*query)(uct_md_h md, uct_md_attr_v2 *attr);
    ucs_status_t (*mem_alloc)(uct_md_h md, std::size_t *length, void **address, ucs_memory_type_t mem_type,
                              ucs_sys_device_t sys_dev, unsigned flags, const char *alloc_name, uct_mem_h *memh);
    ucs_status_t (*mem_free)(uct_md_h md, uct_mem_h memh);
    ucs_status_t (*mem_advise)(uct_md_h md, uct_mem_h memh, void *address, std::size_t length, unsigned advice);
    ucs_status_t (*mem_reg)(uct_md_h md, void *address, std::size_t length, const uct_md_mem_reg_params *params,
                            uct_mem_h *memh);
    ucs_status_t (*mem_dereg)(uct_md_h md, const uct_md_mem_dereg_params *params);
    ucs_status_t (*mem_query)(uct_md_h md, const void *address, std::size_t length, uct_md_mem_attr_v2 *attr);
    ucs_status_t (*mkey_pack)(uct_md_h md, uct_mem_h memh, void *address, std::size_t length,
                              const uct_md_mkey_pack_params *params, void *buffer);
    ucs_status_t (*mem_attach)(uct_md_h md, const void *buffer, uct_md_mem_attach_params *params, uct_mem_h *memh);
    ucs_status_t (*detect_memory_type)(uct_md_h md, const void *address, std::size_t length,
                                       ucs_memory_type_t *mem_type);
    uct_unused_op mem_elem_pack;
    uct_unused_op mem_elem_release;
    uct_unused_op spare[3];
};

struct uct_md {
    uct_md_ops *ops;
    uct_component *component;
};

enum uct_component_flags : std::uint64_t { UCT_COMPONENT_FLAG_CM = 1u << 0, UCT_COMPONENT_FLAG_RKEY_PTR = 1u << 1 };

struct uct_component {
    char name[UCT_COMPONENT_NAME_MAX];
    // UCX frees the array with ucs_free.
    ucs_status_t (*query_md_resources)(uct_component *component, uct_md_resource_desc **resources, unsigned *count);
    ucs_status_t (*md_open)(uct_component *component, const char *md_name, const uct_md_config *config, uct_md_h *md);
    ucs_status_t (*cm_open)(uct_component *component, uct_worker_h worker, const uct_cm_config *config, uct_cm **cm);
    ucs_status_t (*rkey_unpack)(uct_component *component, const void *buffer, const uct_rkey_unpack_params *params,
                                uct_rkey_t *rkey, void **handle);
    ucs_status_t (*rkey_ptr)(uct_component *component, uct_rkey_t rkey, void *handle, std::uint64_t remote_address,
                             void **local_address);
    ucs_status_t (*rkey_release)(uct_component *component, uct_rkey_t rkey, void *handle);
    ucs_status_t (*rkey_compare)(uct_component *component, uct_rkey_t rkey1, uct_rkey_t rkey2,
                                 const uct_rkey_compare_params *params, int *result);
    ucs_config_global_list_entry md_config;
    ucs_config_global_list_entry cm_config; // where there is none: empty strings for names, and no table
    ucs_list_link tl_list;
    ucs_list_link list;
    std::uint64_t flags;
    void (*md_vfs_init)(uct_md_h md);
};

} // namespace gaudi::ucx
