// SPDX-License-Identifier: BSD-3-Clause
// The layouts that abi_*.h must have, in one table with two readers: layout.cpp compares it with our declarations, and
// a test compares it with the debug information of a real UCX.
//
// S(library, struct, its name in UCX, bytes)  a whole struct
// T(library, struct, its name in UCX, bytes)  a table that we make longer than UCX has it, so only its fields count
// F(struct, field, offset)                    a field of the struct above, by its name in UCX
#pragma once

#define GAUDI_UCX_LAYOUT(S, T, F)                                                                                      \
    S(ucs, ucs_memory_info, struct ucs_memory_info, 32)                                                                \
    F(ucs_memory_info, type, 0)                                                                                        \
    F(ucs_memory_info, sys_dev, 4)                                                                                     \
    F(ucs_memory_info, base_address, 8)                                                                                \
    F(ucs_memory_info, alloc_length, 16)                                                                               \
    F(ucs_memory_info, mem_flags, 24)                                                                                  \
    S(ucs, ucs_list_link, struct ucs_list_link, 16)                                                                    \
    F(ucs_list_link, prev, 0)                                                                                          \
    F(ucs_list_link, next, 8)                                                                                          \
    S(ucs, ucs_class, struct ucs_class, 40)                                                                            \
    F(ucs_class, name, 0)                                                                                              \
    F(ucs_class, size, 8)                                                                                              \
    F(ucs_class, superclass, 16)                                                                                       \
    F(ucs_class, init, 24)                                                                                             \
    F(ucs_class, cleanup, 32)                                                                                          \
    S(ucs, ucs_log_component_config, struct ucs_log_component_config, 32)                                              \
    F(ucs_log_component_config, log_level, 0)                                                                          \
    F(ucs_log_component_config, name, 4)                                                                               \
    F(ucs_log_component_config, file_filter, 24)                                                                       \
    T(ucs, ucs_global_opts_t, ucs_global_opts_t, 32)                                                                   \
    F(ucs_global_opts_t, log_component, 0)                                                                             \
    S(ucs, ucs_config_parser, struct ucs_config_parser, 56)                                                            \
    F(ucs_config_parser, read, 0)                                                                                      \
    F(ucs_config_parser, write, 8)                                                                                     \
    F(ucs_config_parser, clone, 16)                                                                                    \
    F(ucs_config_parser, release, 24)                                                                                  \
    F(ucs_config_parser, help, 32)                                                                                     \
    F(ucs_config_parser, doc, 40)                                                                                      \
    F(ucs_config_parser, arg, 48)                                                                                      \
    S(ucs, ucs_config_field, struct ucs_config_field, 88)                                                              \
    F(ucs_config_field, name, 0)                                                                                       \
    F(ucs_config_field, dfl_value, 8)                                                                                  \
    F(ucs_config_field, doc, 16)                                                                                       \
    F(ucs_config_field, offset, 24)                                                                                    \
    F(ucs_config_field, parser, 32)                                                                                    \
    S(ucs, ucs_config_global_list_entry, struct ucs_config_global_list_entry, 56)                                      \
    F(ucs_config_global_list_entry, name, 0)                                                                           \
    F(ucs_config_global_list_entry, prefix, 8)                                                                         \
    F(ucs_config_global_list_entry, table, 16)                                                                         \
    F(ucs_config_global_list_entry, size, 24)                                                                          \
    F(ucs_config_global_list_entry, list, 32)                                                                          \
    F(ucs_config_global_list_entry, flags, 48)                                                                         \
    S(ucs, ucs_config_key_field, ucs_config_key_field_t, 24)                                                           \
    F(ucs_config_key_field, name, 0)                                                                                   \
    F(ucs_config_key_field, doc, 8)                                                                                    \
    F(ucs_config_key_field, offset, 16)                                                                                \
    S(ucs, ucs_config_key_value_param, ucs_config_key_value_param_t, 64)                                               \
    F(ucs_config_key_value_param, parser, 0)                                                                           \
    F(ucs_config_key_value_param, keys, 56)                                                                            \
                                                                                                                       \
    S(uct, ucs_callbackq_elem, struct ucs_callbackq_elem, 16)                                                          \
    F(ucs_callbackq_elem, cb, 0)                                                                                       \
    F(ucs_callbackq_elem, arg, 8)                                                                                      \
    S(uct, ucs_callbackq, struct ucs_callbackq, 136)                                                                   \
    F(ucs_callbackq, fast_elems, 0)                                                                                    \
    F(ucs_callbackq, priv, 128)                                                                                        \
    S(uct, ucs_cpu_set, ucs_cpu_set_t, 128)                                                                            \
    S(uct, ucs_linear_func, ucs_linear_func_t, 16)                                                                     \
    F(ucs_linear_func, c, 0)                                                                                           \
    F(ucs_linear_func, m, 8)                                                                                           \
    S(uct, uct_completion, struct uct_completion, 16)                                                                  \
    F(uct_completion, func, 0)                                                                                         \
    F(uct_completion, count, 8)                                                                                        \
    F(uct_completion, status, 12)                                                                                      \
    S(uct, uct_iov, struct uct_iov, 40)                                                                                \
    F(uct_iov, buffer, 0)                                                                                              \
    F(uct_iov, length, 8)                                                                                              \
    F(uct_iov, memh, 16)                                                                                               \
    F(uct_iov, stride, 24)                                                                                             \
    F(uct_iov, count, 32)                                                                                              \
    S(uct, uct_pending_req, struct uct_pending_req, 48)                                                                \
    F(uct_pending_req, func, 0)                                                                                        \
    F(uct_pending_req, priv, 8)                                                                                        \
    S(uct, uct_worker, struct uct_worker, 136)                                                                         \
    F(uct_worker, progress_q, 0)                                                                                       \
    S(uct, uct_priv_worker, struct uct_priv_worker, 168)                                                               \
    F(uct_priv_worker, super, 0)                                                                                       \
    F(uct_priv_worker, async, 136)                                                                                     \
    F(uct_priv_worker, thread_mode, 144)                                                                               \
    F(uct_priv_worker, tl_data, 152)                                                                                   \
    S(uct, uct_worker_progress, struct uct_worker_progress, 8)                                                         \
    F(uct_worker_progress, id, 0)                                                                                      \
    F(uct_worker_progress, refcount, 4)                                                                                \
    S(uct, uct_allocated_memory, struct uct_allocated_memory, 48)                                                      \
    F(uct_allocated_memory, address, 0)                                                                                \
    F(uct_allocated_memory, length, 8)                                                                                 \
    F(uct_allocated_memory, method, 16)                                                                                \
    F(uct_allocated_memory, mem_type, 20)                                                                              \
    F(uct_allocated_memory, md, 24)                                                                                    \
    F(uct_allocated_memory, memh, 32)                                                                                  \
    F(uct_allocated_memory, sys_device, 40)                                                                            \
                                                                                                                       \
    S(uct, uct_md_attr_v2, uct_md_attr_v2_t, 544)                                                                      \
    F(uct_md_attr_v2, field_mask, 0)                                                                                   \
    F(uct_md_attr_v2, max_alloc, 8)                                                                                    \
    F(uct_md_attr_v2, max_reg, 16)                                                                                     \
    F(uct_md_attr_v2, flags, 24)                                                                                       \
    F(uct_md_attr_v2, reg_mem_types, 32)                                                                               \
    F(uct_md_attr_v2, reg_nonblock_mem_types, 40)                                                                      \
    F(uct_md_attr_v2, cache_mem_types, 48)                                                                             \
    F(uct_md_attr_v2, gva_mem_types, 56)                                                                               \
    F(uct_md_attr_v2, detect_mem_types, 64)                                                                            \
    F(uct_md_attr_v2, alloc_mem_types, 72)                                                                             \
    F(uct_md_attr_v2, access_mem_types, 80)                                                                            \
    F(uct_md_attr_v2, dmabuf_mem_types, 88)                                                                            \
    F(uct_md_attr_v2, reg_cost, 96)                                                                                    \
    F(uct_md_attr_v2, component_name, 112)                                                                             \
    F(uct_md_attr_v2, rkey_packed_size, 128)                                                                           \
    F(uct_md_attr_v2, local_cpus, 136)                                                                                 \
    F(uct_md_attr_v2, exported_mkey_packed_size, 264)                                                                  \
    F(uct_md_attr_v2, global_id, 272)                                                                                  \
    F(uct_md_attr_v2, reg_alignment, 528)                                                                              \
    F(uct_md_attr_v2, required_mem_flags, 536)                                                                         \
    S(uct, uct_md_mem_attr_v2, struct uct_md_mem_attr_v2, 56)                                                          \
    F(uct_md_mem_attr_v2, field_mask, 0)                                                                               \
    F(uct_md_mem_attr_v2, mem_type, 8)                                                                                 \
    F(uct_md_mem_attr_v2, sys_dev, 12)                                                                                 \
    F(uct_md_mem_attr_v2, base_address, 16)                                                                            \
    F(uct_md_mem_attr_v2, alloc_length, 24)                                                                            \
    F(uct_md_mem_attr_v2, dmabuf_fd, 32)                                                                               \
    F(uct_md_mem_attr_v2, dmabuf_offset, 40)                                                                           \
    F(uct_md_mem_attr_v2, mem_flags, 48)                                                                               \
    S(uct, uct_md_mem_reg_params, struct uct_md_mem_reg_params, 40)                                                    \
    F(uct_md_mem_reg_params, field_mask, 0)                                                                            \
    F(uct_md_mem_reg_params, flags, 8)                                                                                 \
    F(uct_md_mem_reg_params, dmabuf_fd, 16)                                                                            \
    F(uct_md_mem_reg_params, dmabuf_offset, 24)                                                                        \
    F(uct_md_mem_reg_params, mem_type, 32)                                                                             \
    S(uct, uct_md_mem_dereg_params, struct uct_md_mem_dereg_params, 32)                                                \
    F(uct_md_mem_dereg_params, field_mask, 0)                                                                          \
    F(uct_md_mem_dereg_params, flags, 8)                                                                               \
    F(uct_md_mem_dereg_params, memh, 16)                                                                               \
    F(uct_md_mem_dereg_params, comp, 24)                                                                               \
    S(uct, uct_md_mkey_pack_params, struct uct_md_mkey_pack_params, 16)                                                \
    F(uct_md_mkey_pack_params, field_mask, 0)                                                                          \
    F(uct_md_mkey_pack_params, flags, 8)                                                                               \
    S(uct, uct_md_mem_attach_params, struct uct_md_mem_attach_params, 24)                                              \
    F(uct_md_mem_attach_params, field_mask, 0)                                                                         \
    F(uct_md_mem_attach_params, flags, 8)                                                                              \
    F(uct_md_mem_attach_params, mkey_size, 16)                                                                         \
    S(uct, uct_rkey_unpack_params, struct uct_rkey_unpack_params, 16)                                                  \
    F(uct_rkey_unpack_params, field_mask, 0)                                                                           \
    F(uct_rkey_unpack_params, sys_device, 8)                                                                           \
    S(uct, uct_rkey_compare_params, struct uct_rkey_compare_params, 8)                                                 \
    F(uct_rkey_compare_params, field_mask, 0)                                                                          \
    S(uct, uct_md_resource_desc, struct uct_md_resource_desc, 16)                                                      \
    F(uct_md_resource_desc, md_name, 0)                                                                                \
    T(uct, uct_md_ops, struct uct_md_ops, 128)                                                                         \
    F(uct_md_ops, close, 0)                                                                                            \
    F(uct_md_ops, query, 8)                                                                                            \
    F(uct_md_ops, mem_alloc, 16)                                                                                       \
    F(uct_md_ops, mem_free, 24)                                                                                        \
    F(uct_md_ops, mem_advise, 32)                                                                                      \
    F(uct_md_ops, mem_reg, 40)                                                                                         \
    F(uct_md_ops, mem_dereg, 48)                                                                                       \
    F(uct_md_ops, mem_query, 56)                                                                                       \
    F(uct_md_ops, mkey_pack, 64)                                                                                       \
    F(uct_md_ops, mem_attach, 72)                                                                                      \
    F(uct_md_ops, detect_memory_type, 80)                                                                              \
    F(uct_md_ops, mem_elem_pack, 88)                                                                                   \
    S(uct, uct_md, struct uct_md, 16)                                                                                  \
    F(uct_md, ops, 0)                                                                                                  \
    F(uct_md, component, 8)                                                                                            \
    S(uct, uct_component, struct uct_component, 232)                                                                   \
    F(uct_component, name, 0)                                                                                          \
    F(uct_component, query_md_resources, 16)                                                                           \
    F(uct_component, md_open, 24)                                                                                      \
    F(uct_component, cm_open, 32)                                                                                      \
    F(uct_component, rkey_unpack, 40)                                                                                  \
    F(uct_component, rkey_ptr, 48)                                                                                     \
    F(uct_component, rkey_release, 56)                                                                                 \
    F(uct_component, rkey_compare, 64)                                                                                 \
    F(uct_component, md_config, 72)                                                                                    \
    F(uct_component, cm_config, 128)                                                                                   \
    F(uct_component, tl_list, 184)                                                                                     \
    F(uct_component, list, 200)                                                                                        \
    F(uct_component, flags, 216)                                                                                       \
    F(uct_component, md_vfs_init, 224)                                                                                 \
                                                                                                                       \
    S(uct, uct_tl_device_resource, struct uct_tl_device_resource, 40)                                                  \
    F(uct_tl_device_resource, name, 0)                                                                                 \
    F(uct_tl_device_resource, type, 32)                                                                                \
    F(uct_tl_device_resource, sys_device, 36)                                                                          \
    S(uct, uct_ppn_bandwidth, struct uct_ppn_bandwidth, 16)                                                            \
    F(uct_ppn_bandwidth, dedicated, 0)                                                                                 \
    F(uct_ppn_bandwidth, shared, 8)                                                                                    \
    S(uct, uct_iface_attr, struct uct_iface_attr, 536)                                                                 \
    F(uct_iface_attr, cap.put.max_short, 0)                                                                            \
    F(uct_iface_attr, cap.put.max_bcopy, 8)                                                                            \
    F(uct_iface_attr, cap.put.min_zcopy, 16)                                                                           \
    F(uct_iface_attr, cap.put.max_zcopy, 24)                                                                           \
    F(uct_iface_attr, cap.put.opt_zcopy_align, 32)                                                                     \
    F(uct_iface_attr, cap.put.align_mtu, 40)                                                                           \
    F(uct_iface_attr, cap.put.max_iov, 48)                                                                             \
    F(uct_iface_attr, cap.get.max_short, 56)                                                                           \
    F(uct_iface_attr, cap.get.max_bcopy, 64)                                                                           \
    F(uct_iface_attr, cap.get.min_zcopy, 72)                                                                           \
    F(uct_iface_attr, cap.get.max_zcopy, 80)                                                                           \
    F(uct_iface_attr, cap.get.opt_zcopy_align, 88)                                                                     \
    F(uct_iface_attr, cap.get.align_mtu, 96)                                                                           \
    F(uct_iface_attr, cap.get.max_iov, 104)                                                                            \
    F(uct_iface_attr, cap.atomic32.op_flags, 264)                                                                      \
    F(uct_iface_attr, cap.atomic64.fop_flags, 288)                                                                     \
    F(uct_iface_attr, cap.flags, 296)                                                                                  \
    F(uct_iface_attr, cap.event_flags, 304)                                                                            \
    F(uct_iface_attr, device_addr_len, 312)                                                                            \
    F(uct_iface_attr, iface_addr_len, 320)                                                                             \
    F(uct_iface_attr, ep_addr_len, 328)                                                                                \
    F(uct_iface_attr, max_conn_priv, 336)                                                                              \
    F(uct_iface_attr, listen_sockaddr, 344)                                                                            \
    F(uct_iface_attr, overhead, 472)                                                                                   \
    F(uct_iface_attr, bandwidth, 480)                                                                                  \
    F(uct_iface_attr, latency, 496)                                                                                    \
    F(uct_iface_attr, priority, 512)                                                                                   \
    F(uct_iface_attr, max_num_eps, 520)                                                                                \
    F(uct_iface_attr, dev_num_paths, 528)                                                                              \
    F(uct_iface_attr, ctl_device, 532)                                                                                 \
    S(uct, uct_perf_attr, uct_perf_attr_t, 112)                                                                        \
    F(uct_perf_attr, field_mask, 0)                                                                                    \
    F(uct_perf_attr, operation, 8)                                                                                     \
    F(uct_perf_attr, local_memory_type, 12)                                                                            \
    F(uct_perf_attr, remote_memory_type, 16)                                                                           \
    F(uct_perf_attr, local_sys_device, 20)                                                                             \
    F(uct_perf_attr, remote_sys_device, 21)                                                                            \
    F(uct_perf_attr, send_pre_overhead, 24)                                                                            \
    F(uct_perf_attr, send_post_overhead, 32)                                                                           \
    F(uct_perf_attr, recv_overhead, 40)                                                                                \
    F(uct_perf_attr, bandwidth, 48)                                                                                    \
    F(uct_perf_attr, path_bandwidth, 64)                                                                               \
    F(uct_perf_attr, latency, 80)                                                                                      \
    F(uct_perf_attr, max_inflight_eps, 96)                                                                             \
    F(uct_perf_attr, flags, 104)                                                                                       \
    S(uct, uct_iface_params, struct uct_iface_params, 304)                                                             \
    F(uct_iface_params, field_mask, 0)                                                                                 \
    F(uct_iface_params, cpu_mask, 8)                                                                                   \
    F(uct_iface_params, open_mode, 136)                                                                                \
    F(uct_iface_params, mode.device.tl_name, 144)                                                                      \
    F(uct_iface_params, mode.device.dev_name, 152)                                                                     \
    F(uct_iface_params, stats_root, 184)                                                                               \
    F(uct_iface_params, rx_headroom, 192)                                                                              \
    F(uct_iface_params, err_handler_arg, 200)                                                                          \
    F(uct_iface_params, err_handler, 208)                                                                              \
    F(uct_iface_params, err_handler_flags, 216)                                                                        \
    F(uct_iface_params, keepalive_interval, 272)                                                                       \
    F(uct_iface_params, am_alignment, 280)                                                                             \
    F(uct_iface_params, am_align_offset, 288)                                                                          \
    F(uct_iface_params, features, 296)                                                                                 \
    S(uct, uct_iface_config, struct uct_iface_config, 32)                                                              \
    F(uct_iface_config, alloc_methods.methods, 0)                                                                      \
    F(uct_iface_config, alloc_methods.count, 8)                                                                        \
    F(uct_iface_config, failure, 16)                                                                                   \
    F(uct_iface_config, max_num_eps, 24)                                                                               \
    S(uct, uct_ep_params, struct uct_ep_params, 160)                                                                   \
    F(uct_ep_params, field_mask, 0)                                                                                    \
    F(uct_ep_params, iface, 8)                                                                                         \
    F(uct_ep_params, user_data, 16)                                                                                    \
    F(uct_ep_params, dev_addr, 24)                                                                                     \
    F(uct_ep_params, iface_addr, 32)                                                                                   \
    F(uct_ep_params, path_index, 104)                                                                                  \
    S(uct, uct_iface_is_reachable_params, struct uct_iface_is_reachable_params, 64)                                    \
    F(uct_iface_is_reachable_params, field_mask, 0)                                                                    \
    F(uct_iface_is_reachable_params, device_addr, 8)                                                                   \
    F(uct_iface_is_reachable_params, iface_addr, 16)                                                                   \
    F(uct_iface_is_reachable_params, info_string, 24)                                                                  \
    F(uct_iface_is_reachable_params, info_string_length, 32)                                                           \
    F(uct_iface_is_reachable_params, scope, 40)                                                                        \
    F(uct_iface_is_reachable_params, device_addr_length, 48)                                                           \
    F(uct_iface_is_reachable_params, iface_addr_length, 56)                                                            \
    S(uct, uct_ep_is_connected_params, struct uct_ep_is_connected_params, 32)                                          \
    F(uct_ep_is_connected_params, field_mask, 0)                                                                       \
    F(uct_ep_is_connected_params, device_addr, 8)                                                                      \
    F(uct_ep_is_connected_params, iface_addr, 16)                                                                      \
    F(uct_ep_is_connected_params, ep_addr, 24)                                                                         \
    S(uct, uct_iface_ops, struct uct_iface_ops, 400)                                                                   \
    F(uct_iface_ops, ep_put_short, 0)                                                                                  \
    F(uct_iface_ops, ep_put_bcopy, 8)                                                                                  \
    F(uct_iface_ops, ep_put_zcopy, 16)                                                                                 \
    F(uct_iface_ops, ep_get_short, 24)                                                                                 \
    F(uct_iface_ops, ep_get_bcopy, 32)                                                                                 \
    F(uct_iface_ops, ep_get_zcopy, 40)                                                                                 \
    F(uct_iface_ops, ep_pending_add, 192)                                                                              \
    F(uct_iface_ops, ep_pending_purge, 200)                                                                            \
    F(uct_iface_ops, ep_flush, 208)                                                                                    \
    F(uct_iface_ops, ep_fence, 216)                                                                                    \
    F(uct_iface_ops, ep_check, 224)                                                                                    \
    F(uct_iface_ops, ep_create, 232)                                                                                   \
    F(uct_iface_ops, ep_connect, 240)                                                                                  \
    F(uct_iface_ops, ep_disconnect, 248)                                                                               \
    F(uct_iface_ops, cm_ep_conn_notify, 256)                                                                           \
    F(uct_iface_ops, ep_destroy, 264)                                                                                  \
    F(uct_iface_ops, ep_get_address, 272)                                                                              \
    F(uct_iface_ops, ep_connect_to_ep, 280)                                                                            \
    F(uct_iface_ops, iface_accept, 288)                                                                                \
    F(uct_iface_ops, iface_reject, 296)                                                                                \
    F(uct_iface_ops, iface_flush, 304)                                                                                 \
    F(uct_iface_ops, iface_fence, 312)                                                                                 \
    F(uct_iface_ops, iface_progress_enable, 320)                                                                       \
    F(uct_iface_ops, iface_progress_disable, 328)                                                                      \
    F(uct_iface_ops, iface_progress, 336)                                                                              \
    F(uct_iface_ops, iface_event_fd_get, 344)                                                                          \
    F(uct_iface_ops, iface_event_arm, 352)                                                                             \
    F(uct_iface_ops, iface_close, 360)                                                                                 \
    F(uct_iface_ops, iface_query, 368)                                                                                 \
    F(uct_iface_ops, iface_get_device_address, 376)                                                                    \
    F(uct_iface_ops, iface_get_address, 384)                                                                           \
    F(uct_iface_ops, iface_is_reachable, 392)                                                                          \
    T(uct, uct_iface_attr_v2, uct_iface_attr_v2_t, 24)                                                                 \
    F(uct_iface_attr_v2, field_mask, 0)                                                                                \
    F(uct_iface_attr_v2, max_put_sgl_zcopy_count, 8)                                                                   \
    F(uct_iface_attr_v2, cap.flags, 16)                                                                                \
    T(uct, uct_iface_internal_ops, struct uct_iface_internal_ops, 128)                                                 \
    F(uct_iface_internal_ops, iface_query_v2, 0)                                                                       \
    F(uct_iface_internal_ops, iface_estimate_perf, 8)                                                                  \
    F(uct_iface_internal_ops, iface_vfs_refresh, 16)                                                                   \
    F(uct_iface_internal_ops, ep_query, 24)                                                                            \
    F(uct_iface_internal_ops, ep_invalidate, 32)                                                                       \
    F(uct_iface_internal_ops, ep_connect_to_ep_v2, 40)                                                                 \
    F(uct_iface_internal_ops, iface_is_reachable_v2, 48)                                                               \
    F(uct_iface_internal_ops, ep_is_connected, 56)                                                                     \
    F(uct_iface_internal_ops, ep_get_device_ep, 64)                                                                    \
    F(uct_iface_internal_ops, ep_put_sgl_zcopy, 72)                                                                    \
    S(uct, uct_iface, struct uct_iface, 400)                                                                           \
    F(uct_iface, ops, 0)                                                                                               \
    S(uct, uct_ep, struct uct_ep, 8)                                                                                   \
    F(uct_ep, iface, 0)                                                                                                \
    S(uct, uct_base_iface, struct uct_base_iface, 1280)                                                                \
    F(uct_base_iface, super, 0)                                                                                        \
    F(uct_base_iface, internal_ops, 400)                                                                               \
    F(uct_base_iface, md, 408)                                                                                         \
    F(uct_base_iface, worker, 416)                                                                                     \
    F(uct_base_iface, am, 424)                                                                                         \
    F(uct_base_iface, am_tracer, 1192)                                                                                 \
    F(uct_base_iface, am_tracer_arg, 1200)                                                                             \
    F(uct_base_iface, err_handler, 1208)                                                                               \
    F(uct_base_iface, err_handler_arg, 1216)                                                                           \
    F(uct_base_iface, err_handler_flags, 1224)                                                                         \
    F(uct_base_iface, prog, 1228)                                                                                      \
    F(uct_base_iface, progress_flags, 1236)                                                                            \
    F(uct_base_iface, config.num_alloc_methods, 1240)                                                                  \
    F(uct_base_iface, config.alloc_methods, 1244)                                                                      \
    F(uct_base_iface, config.failure_level, 1264)                                                                      \
    F(uct_base_iface, config.max_num_eps, 1272)                                                                        \
    S(uct, uct_tl, struct uct_tl, 104)                                                                                 \
    F(uct_tl, name, 0)                                                                                                 \
    F(uct_tl, query_devices, 16)                                                                                       \
    F(uct_tl, iface_open, 24)                                                                                          \
    F(uct_tl, config, 32)                                                                                              \
    F(uct_tl, list, 88)                                                                                                \
                                                                                                                       \
    S(ucm, ucm_event, union ucm_event, 48)                                                                             \
    F(ucm_event, mremap.result, 0)                                                                                     \
    F(ucm_event, mremap.new_size, 24)                                                                                  \
    F(ucm_event, vm_mapped.address, 0)                                                                                 \
    F(ucm_event, vm_mapped.size, 8)                                                                                    \
    F(ucm_event, vm_unmapped.address, 0)                                                                               \
    F(ucm_event, vm_unmapped.size, 8)                                                                                  \
    F(ucm_event, mem_type.address, 0)                                                                                  \
    F(ucm_event, mem_type.size, 8)                                                                                     \
    F(ucm_event, mem_type.mem_type, 16)                                                                                \
    F(ucm_event, mem_type.sys_dev, 20)                                                                                 \
    F(ucm_event, mem_type.mem_flags, 21)                                                                               \
    S(ucm, ucm_event_handler, struct ucm_event_handler, 40)                                                            \
    F(ucm_event_handler, list, 0)                                                                                      \
    F(ucm_event_handler, events, 16)                                                                                   \
    F(ucm_event_handler, priority, 20)                                                                                 \
    F(ucm_event_handler, cb, 24)                                                                                       \
    F(ucm_event_handler, arg, 32)                                                                                      \
    S(ucm, ucm_event_installer, struct ucm_event_installer, 32)                                                        \
    F(ucm_event_installer, install, 0)                                                                                 \
    F(ucm_event_installer, get_existing_alloc, 8)                                                                      \
    F(ucm_event_installer, list, 16)                                                                                   \
    S(ucm, ucm_reloc_patch, struct ucm_reloc_patch, 48)                                                                \
    F(ucm_reloc_patch, symbol, 0)                                                                                      \
    F(ucm_reloc_patch, value, 8)                                                                                       \
    F(ucm_reloc_patch, prev_value, 16)                                                                                 \
    F(ucm_reloc_patch, list, 24)                                                                                       \
    F(ucm_reloc_patch, blacklist, 40)                                                                                  \
                                                                                                                       \
    S(perftest, ucx_perf_allocator, struct ucx_perf_allocator, 48)                                                     \
    F(ucx_perf_allocator, mem_type, 0)                                                                                 \
    F(ucx_perf_allocator, init, 8)                                                                                     \
    F(ucx_perf_allocator, uct_alloc, 16)                                                                               \
    F(ucx_perf_allocator, uct_free, 24)                                                                                \
    F(ucx_perf_allocator, memcpy, 32)                                                                                  \
    F(ucx_perf_allocator, memset, 40)
