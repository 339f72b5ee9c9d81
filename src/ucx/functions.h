// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"

namespace gaudi::ucx {

// The prototypes. Nothing defines them: each is looked up in the UCX that loaded the module.
namespace declared {

// ---- libucs
void *ucs_malloc(std::size_t size, const char *name);
void *ucs_calloc(std::size_t count, std::size_t size, const char *name);
void ucs_free(void *pointer);
const char *ucs_status_string(ucs_status_t status);
void ucs_log_dispatch(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                      const ucs_log_component_config *component, const char *format, ...);
void ucs_log_flush();
extern ucs_global_opts_t ucs_global_opts;
void ucs_class_call_cleanup_chain(ucs_class *cls, void *object, int limit);

ucs_status_t ucs_memtype_cache_lookup(const void *address, std::size_t size, ucs_memory_info *info);
void ucs_memtype_cache_update(const void *address, std::size_t size, ucs_memory_type_t type, ucs_sys_device_t sys_dev,
                              std::uint8_t mem_flags);
void ucs_memtype_cache_global_create(); // 1.23

ucs_status_t ucs_async_set_event_handler(ucs_async_mode_t mode, int event_fd, ucs_event_set_types_t events,
                                         ucs_async_event_cb_t callback, void *arg, ucs_async_context *async);
ucs_status_t ucs_async_remove_handler(int id, int sync);

ucs_status_t ucs_topo_find_device_by_bdf_name(const char *name, ucs_sys_device_t *sys_dev);
ucs_status_t ucs_topo_sys_device_set_name(ucs_sys_device_t sys_dev, const char *name, unsigned priority);

ucs_status_t ucs_config_parser_fill_opts(void *options, ucs_config_global_list_entry *entry, const char *env_prefix,
                                         int ignore_errors);
int ucs_config_sscanf_string(const char *text, void *value, const void *arg);
int ucs_config_sprintf_string(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_uint(const char *text, void *value, const void *arg);
int ucs_config_sprintf_uint(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_ternary(const char *text, void *value, const void *arg);
int ucs_config_sprintf_ternary_auto(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_enum(const char *text, void *value, const void *arg);
int ucs_config_sprintf_enum(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_memunits(const char *text, void *value, const void *arg);
int ucs_config_sprintf_memunits(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_time(const char *text, void *value, const void *arg);
int ucs_config_sprintf_time(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_bw(const char *text, void *value, const void *arg);
int ucs_config_sprintf_bw(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_key_value(const char *text, void *value, const void *arg);
int ucs_config_sprintf_key_value(char *text, std::size_t size, const void *value, const void *arg);
int ucs_config_sscanf_table(const char *text, void *value, const void *arg);
ucs_status_t ucs_config_clone_string(const void *source, void *target, const void *arg);
ucs_status_t ucs_config_clone_int(const void *source, void *target, const void *arg);
ucs_status_t ucs_config_clone_uint(const void *source, void *target, const void *arg);
ucs_status_t ucs_config_clone_ulong(const void *source, void *target, const void *arg);
ucs_status_t ucs_config_clone_double(const void *source, void *target, const void *arg);
ucs_status_t ucs_config_clone_key_value(const void *source, void *target, const void *arg);
ucs_status_t ucs_config_clone_table(const void *source, void *target, const void *arg);
void ucs_config_release_nop(void *value, const void *arg);
void ucs_config_release_string(void *value, const void *arg);
void ucs_config_release_key_value(void *value, const void *arg);
void ucs_config_release_table(void *value, const void *arg);
void ucs_config_help_generic(char *text, std::size_t size, const void *arg);
void ucs_config_help_enum(char *text, std::size_t size, const void *arg);
void ucs_config_help_key_value(char *text, std::size_t size, const void *arg);
void ucs_config_help_table(char *text, std::size_t size, const void *arg);
void ucs_config_doc_nop(ucs_string_buffer *text, const void *arg);
void ucs_config_doc_key_value(ucs_string_buffer *text, const void *arg);

using ucs_vfs_file_read_cb_t = void (*)(void *object, ucs_string_buffer *text, void *arg_ptr, std::uint64_t arg_u64);
using ucs_vfs_refresh_cb_t = void (*)(void *object);
ucs_status_t ucs_vfs_obj_add_dir(void *parent, void *object, const char *relative_path, ...);
ucs_status_t ucs_vfs_obj_add_ro_file(void *object, ucs_vfs_file_read_cb_t read, void *arg_ptr, std::uint64_t arg_u64,
                                     const char *relative_path, ...);
void ucs_vfs_obj_set_dirty(void *object, ucs_vfs_refresh_cb_t refresh);
void ucs_string_buffer_appendf(ucs_string_buffer *text, const char *format, ...);

// ---- libuct
void uct_component_register(uct_component *component);
void uct_tl_register(uct_component *component, uct_tl *tl);
extern ucs_class uct_base_iface_t_class;
extern ucs_class uct_base_ep_t_class;
ucs_status_t uct_base_iface_t_init(uct_base_iface *self, ucs_class *cls, int *init_count, uct_iface_ops *ops,
                                   uct_iface_internal_ops *internal_ops, uct_md_h md, uct_worker_h worker,
                                   const uct_iface_params *params, const uct_iface_config *config);
extern ucs_config_field uct_iface_config_table; // the first of its rows
extern ucs_config_field uct_md_config_table;    // likewise
ucs_status_t uct_iface_base_query_v2(uct_iface_h iface, uct_iface_attr_v2 *attr);
void uct_base_iface_query(uct_base_iface *iface, uct_iface_attr *attr);
int uct_base_iface_is_reachable(uct_iface_h iface, const uct_device_addr *device, const uct_iface_addr *address);
int uct_iface_scope_is_reachable(uct_iface_h iface, const uct_iface_is_reachable_params *params);
int uct_iface_is_reachable_params_addrs_valid(const uct_iface_is_reachable_params *params);
void uct_iface_fill_info_str_buf(const uct_iface_is_reachable_params *params, const char *format, ...);
int uct_base_ep_is_connected(uct_ep_h ep, const uct_ep_is_connected_params *params);
void uct_base_iface_progress_enable(uct_iface_h iface, unsigned flags);
void uct_base_iface_progress_disable(uct_iface_h iface, unsigned flags);

// The dispatchers of libuct: the ABI proof calls them, see proof.h.
void uct_md_close(uct_md_h md);
ucs_status_t uct_md_query_v2(uct_md_h md, uct_md_attr_v2 *attr);
ucs_status_t uct_md_mem_alloc(uct_md_h md, std::size_t *length, void **address, ucs_memory_type_t mem_type,
                              ucs_sys_device_t sys_dev, unsigned flags, const char *alloc_name, uct_mem_h *memh);
ucs_status_t uct_md_mem_free(uct_md_h md, uct_mem_h memh);
ucs_status_t uct_md_mem_advise(uct_md_h md, uct_mem_h memh, void *address, std::size_t length, unsigned advice);
ucs_status_t uct_md_mem_reg_v2(uct_md_h md, void *address, std::size_t length, const uct_md_mem_reg_params *params,
                               uct_mem_h *memh);
ucs_status_t uct_md_mem_dereg_v2(uct_md_h md, const uct_md_mem_dereg_params *params);
ucs_status_t uct_md_mem_query_v2(uct_md_h md, const void *address, std::size_t length, uct_md_mem_attr_v2 *attr);
ucs_status_t uct_md_mkey_pack_v2(uct_md_h md, uct_mem_h memh, void *address, std::size_t length,
                                 const uct_md_mkey_pack_params *params, void *buffer);
ucs_status_t uct_md_mem_attach(uct_md_h md, const void *buffer, uct_md_mem_attach_params *params, uct_mem_h *memh);
ucs_status_t uct_md_detect_memory_type(uct_md_h md, const void *address, std::size_t length, ucs_memory_type_t *type);
ucs_status_t uct_md_mem_elem_release(uct_md_h md, void *handle); // later than 1.22.0
ucs_status_t uct_iface_query(uct_iface_h iface, uct_iface_attr *attr);
ucs_status_t uct_iface_get_device_address(uct_iface_h iface, uct_device_addr *address);
ucs_status_t uct_iface_get_address(uct_iface_h iface, uct_iface_addr *address);
ucs_status_t uct_iface_event_fd_get(uct_iface_h iface, int *fd);
ucs_status_t uct_iface_event_arm(uct_iface_h iface, unsigned events);
ucs_status_t uct_ep_get_address(uct_ep_h ep, uct_ep_addr *address);
ucs_status_t uct_iface_query_v2(uct_iface_h iface, uct_iface_attr_v2 *attr);
ucs_status_t uct_iface_estimate_perf(uct_iface_h iface, uct_perf_attr *attr);
int uct_iface_is_reachable_v2(uct_iface_h iface, const uct_iface_is_reachable_params *params);
int uct_ep_is_connected(uct_ep_h ep, const uct_ep_is_connected_params *params);
ucs_status_t uct_ep_put_sgl_zcopy(uct_ep_h ep, void *const *buffers, const std::size_t *lengths, const uct_mem_h *memhs,
                                  const std::uint64_t *remote_addresses, const uct_rkey_t *rkeys,
                                  const std::size_t *counts, const std::size_t *strides, std::size_t count,
                                  uct_completion *comp);
ucs_status_t uct_ep_get_sgl_zcopy(uct_ep_h ep, void *const *buffers, const std::size_t *lengths, const uct_mem_h *memhs,
                                  const std::uint64_t *remote_addresses, const uct_rkey_t *rkeys,
                                  const std::size_t *counts, const std::size_t *strides, std::size_t count,
                                  uct_completion *comp); // 1.23

// ---- libucm
extern ucs_list_link ucm_event_installer_list;
void ucm_event_enter();
void ucm_event_leave();
void ucm_event_dispatch(ucm_event_type_t type, ucm_event *event);
ucs_status_t ucm_set_event_handler(int events, int priority, ucm_event_callback_t callback, void *arg);
ucs_status_t ucm_reloc_modify(ucm_reloc_patch *patch);

// ---- libucp, where the process has it
void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release);

} // namespace declared

// A UCX that lacks a required function is refused, and the message names the function.
#define GAUDI_UCX_UCS_REQUIRED(X)                                                                                      \
    X(ucs_malloc)                                                                                                      \
    X(ucs_calloc)                                                                                                      \
    X(ucs_free)                                                                                                        \
    X(ucs_async_set_event_handler)                                                                                     \
    X(ucs_async_remove_handler)                                                                                        \
    X(ucs_status_string)                                                                                               \
    X(ucs_log_dispatch)                                                                                                \
    X(ucs_log_flush)                                                                                                   \
    X(ucs_global_opts)                                                                                                 \
    X(ucs_class_call_cleanup_chain)                                                                                    \
    X(ucs_memtype_cache_lookup)                                                                                        \
    X(ucs_memtype_cache_update)                                                                                        \
    X(ucs_topo_find_device_by_bdf_name)                                                                                \
    X(ucs_topo_sys_device_set_name)                                                                                    \
    X(ucs_config_parser_fill_opts)                                                                                     \
    X(ucs_config_sscanf_string)                                                                                        \
    X(ucs_config_sprintf_string)                                                                                       \
    X(ucs_config_sscanf_uint)                                                                                          \
    X(ucs_config_sprintf_uint)                                                                                         \
    X(ucs_config_sscanf_ternary)                                                                                       \
    X(ucs_config_sprintf_ternary_auto)                                                                                 \
    X(ucs_config_sscanf_enum)                                                                                          \
    X(ucs_config_sprintf_enum)                                                                                         \
    X(ucs_config_sscanf_memunits)                                                                                      \
    X(ucs_config_sprintf_memunits)                                                                                     \
    X(ucs_config_sscanf_time)                                                                                          \
    X(ucs_config_sprintf_time)                                                                                         \
    X(ucs_config_sscanf_bw)                                                                                            \
    X(ucs_config_sprintf_bw)                                                                                           \
    X(ucs_config_sscanf_key_value)                                                                                     \
    X(ucs_config_sprintf_key_value)                                                                                    \
    X(ucs_config_sscanf_table)                                                                                         \
    X(ucs_config_clone_string)                                                                                         \
    X(ucs_config_clone_int)                                                                                            \
    X(ucs_config_clone_uint)                                                                                           \
    X(ucs_config_clone_ulong)                                                                                          \
    X(ucs_config_clone_double)                                                                                         \
    X(ucs_config_clone_key_value)                                                                                      \
    X(ucs_config_clone_table)                                                                                          \
    X(ucs_config_release_nop)                                                                                          \
    X(ucs_config_release_string)                                                                                       \
    X(ucs_config_release_key_value)                                                                                    \
    X(ucs_config_release_table)                                                                                        \
    X(ucs_config_help_generic)                                                                                         \
    X(ucs_config_help_enum)                                                                                            \
    X(ucs_config_help_key_value)                                                                                       \
    X(ucs_config_help_table)                                                                                           \
    X(ucs_config_doc_nop)                                                                                              \
    X(ucs_config_doc_key_value)

#define GAUDI_UCX_UCS_OPTIONAL(X)                                                                                      \
    X(ucs_memtype_cache_global_create)                                                                                 \
    X(ucs_vfs_obj_add_dir)                                                                                             \
    X(ucs_vfs_obj_add_ro_file)                                                                                         \
    X(ucs_vfs_obj_set_dirty)                                                                                           \
    X(ucs_string_buffer_appendf)

#define GAUDI_UCX_UCM_REQUIRED(X)                                                                                      \
    X(ucm_event_installer_list)                                                                                        \
    X(ucm_event_enter)                                                                                                 \
    X(ucm_event_leave)                                                                                                 \
    X(ucm_event_dispatch)                                                                                              \
    X(ucm_set_event_handler)

#define GAUDI_UCX_UCM_OPTIONAL(X) X(ucm_reloc_modify)

// UCX before 1.22 lacks the first two: they come first, so that the message names what tells the versions apart.
#define GAUDI_UCX_UCT_REQUIRED(X)                                                                                      \
    X(uct_iface_query_v2)                                                                                              \
    X(uct_md_mem_query_v2)                                                                                             \
    X(uct_component_register)                                                                                          \
    X(uct_tl_register)                                                                                                 \
    X(uct_base_iface_t_class)                                                                                          \
    X(uct_base_ep_t_class)                                                                                             \
    X(uct_base_iface_t_init)                                                                                           \
    X(uct_iface_config_table)                                                                                          \
    X(uct_md_config_table)                                                                                             \
    X(uct_iface_base_query_v2)                                                                                         \
    X(uct_base_iface_query)                                                                                            \
    X(uct_base_iface_is_reachable)                                                                                     \
    X(uct_iface_scope_is_reachable)                                                                                    \
    X(uct_iface_is_reachable_params_addrs_valid)                                                                       \
    X(uct_iface_fill_info_str_buf)                                                                                     \
    X(uct_base_ep_is_connected)                                                                                        \
    X(uct_base_iface_progress_enable)                                                                                  \
    X(uct_base_iface_progress_disable)                                                                                 \
    X(uct_md_close)                                                                                                    \
    X(uct_md_query_v2)                                                                                                 \
    X(uct_md_mem_alloc)                                                                                                \
    X(uct_md_mem_free)                                                                                                 \
    X(uct_md_mem_advise)                                                                                               \
    X(uct_md_mem_reg_v2)                                                                                               \
    X(uct_md_mem_dereg_v2)                                                                                             \
    X(uct_md_mkey_pack_v2)                                                                                             \
    X(uct_md_mem_attach)                                                                                               \
    X(uct_md_detect_memory_type)                                                                                       \
    X(uct_iface_query)                                                                                                 \
    X(uct_iface_get_device_address)                                                                                    \
    X(uct_iface_get_address)                                                                                           \
    X(uct_iface_event_fd_get)                                                                                          \
    X(uct_iface_event_arm)                                                                                             \
    X(uct_ep_get_address)                                                                                              \
    X(uct_iface_estimate_perf)                                                                                         \
    X(uct_iface_is_reachable_v2)                                                                                       \
    X(uct_ep_is_connected)

#define GAUDI_UCX_UCT_OPTIONAL(X)                                                                                      \
    X(uct_md_mem_elem_release)                                                                                         \
    X(uct_ep_put_sgl_zcopy)                                                                                            \
    X(uct_ep_get_sgl_zcopy)

/// The functions of one UCX, and its data by address.
struct Functions {
#define GAUDI_UCX_MEMBER(name) decltype(&declared::name) name = nullptr;
    GAUDI_UCX_UCS_REQUIRED(GAUDI_UCX_MEMBER)
    GAUDI_UCX_UCS_OPTIONAL(GAUDI_UCX_MEMBER)
    GAUDI_UCX_UCM_REQUIRED(GAUDI_UCX_MEMBER)
    GAUDI_UCX_UCM_OPTIONAL(GAUDI_UCX_MEMBER)
    GAUDI_UCX_UCT_REQUIRED(GAUDI_UCX_MEMBER) // Host::find_uct sets these
    GAUDI_UCX_UCT_OPTIONAL(GAUDI_UCX_MEMBER)
#undef GAUDI_UCX_MEMBER
};

} // namespace gaudi::ucx
