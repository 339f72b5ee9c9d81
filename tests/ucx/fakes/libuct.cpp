// SPDX-License-Identifier: BSD-3-Clause
// A libuct of dispatchers, with what may differ between builds of UCX set by macros.
#include <cstddef>

#ifndef FAKE_IFACE_BYTES
#define FAKE_IFACE_BYTES 1280
#endif
#ifndef FAKE_EP_BYTES
#define FAKE_EP_BYTES 8
#endif
#ifndef FAKE_MD_SHIFT // slots inserted into uct_md_ops from mem_reg on
#define FAKE_MD_SHIFT 0
#endif
#ifndef FAKE_IFACE_SHIFT // slots inserted at the beginning of uct_iface_ops
#define FAKE_IFACE_SHIFT 0
#endif
#ifndef FAKE_INTERNAL_SHIFT // slots inserted at the beginning of uct_iface_internal_ops
#define FAKE_INTERNAL_SHIFT 0
#endif
#ifndef FAKE_INTERNAL_PLACE // the word of uct_base_iface that points to it
#define FAKE_INTERNAL_PLACE 50
#endif

#ifndef FAKE_SGL_SHIFT // slots inserted into uct_iface_internal_ops from ep_put_sgl_zcopy on
#define FAKE_SGL_SHIFT 0
#endif
#ifndef FAKE_ATTRIBUTE_SHIFT // words inserted at the beginning of uct_iface_attr_v2
#define FAKE_ATTRIBUTE_SHIFT 0
#endif

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Operation = signed char (*)(...);

struct Class {
    const char *name;
    std::size_t size;
    void *rest[3];
};

Operation md_slot(void *md, int slot) { return (*static_cast<Operation **>(md))[slot]; }
Operation iface_slot(void *iface, int slot) { return static_cast<Operation *>(iface)[slot + FAKE_IFACE_SHIFT]; }
Operation internal_slot(void *iface, int slot) {
    return static_cast<Operation **>(iface)[FAKE_INTERNAL_PLACE][slot + FAKE_INTERNAL_SHIFT];
}
void *iface_of(void *ep) { return *static_cast<void **>(ep); }

} // namespace

FAKE_EXPORT Class uct_base_iface_t_class;
FAKE_EXPORT Class uct_base_ep_t_class;
Class uct_base_iface_t_class = {"uct_base_iface_t", FAKE_IFACE_BYTES, {}};
Class uct_base_ep_t_class = {"uct_base_ep_t", FAKE_EP_BYTES, {}};

#define FAKE_MD(name, slot)                                                                                            \
    FAKE_EXPORT signed char name(void *md) { return md_slot(md, slot)(md); }
#define FAKE_IFACE(name, slot)                                                                                         \
    FAKE_EXPORT signed char name(void *iface) { return iface_slot(iface, slot)(iface); }
#define FAKE_INTERNAL(name, slot)                                                                                      \
    FAKE_EXPORT signed char name(void *iface) { return internal_slot(iface, slot)(iface); }

FAKE_MD(uct_md_close, 0)
FAKE_MD(uct_md_query_v2, 1)
FAKE_MD(uct_md_mem_alloc, 2)
FAKE_MD(uct_md_mem_free, 3)
FAKE_MD(uct_md_mem_advise, 4)
FAKE_MD(uct_md_mem_reg_v2, 5 + FAKE_MD_SHIFT)
FAKE_MD(uct_md_mem_dereg_v2, 6 + FAKE_MD_SHIFT)
#ifdef FAKE_CALLS_NOTHING
FAKE_EXPORT signed char uct_md_mem_query_v2(void *) { return 0; }
#else
FAKE_MD(uct_md_mem_query_v2, 7 + FAKE_MD_SHIFT)
#endif
FAKE_MD(uct_md_mkey_pack_v2, 8 + FAKE_MD_SHIFT)
FAKE_MD(uct_md_mem_attach, 9 + FAKE_MD_SHIFT)
FAKE_MD(uct_md_detect_memory_type, 10 + FAKE_MD_SHIFT)
#ifdef FAKE_LATER
FAKE_MD(uct_md_mem_elem_release, 12 + FAKE_MD_SHIFT)
#endif

FAKE_IFACE(uct_iface_event_fd_get, 43)
FAKE_IFACE(uct_iface_event_arm, 44)
FAKE_IFACE(uct_iface_query, 46)
FAKE_IFACE(uct_iface_get_device_address, 47)
FAKE_IFACE(uct_iface_get_address, 48)
FAKE_EXPORT signed char uct_ep_get_address(void *ep) { return iface_slot(iface_of(ep), 34)(ep); }

FAKE_INTERNAL(uct_iface_query_v2, 0)
FAKE_INTERNAL(uct_iface_estimate_perf, 1)
FAKE_INTERNAL(uct_iface_is_reachable_v2, 6)
FAKE_EXPORT signed char uct_ep_is_connected(void *ep) { return internal_slot(iface_of(ep), 7)(ep); }

#ifdef FAKE_PUT_SGL
FAKE_EXPORT signed char uct_ep_put_sgl_zcopy(void *ep) { return internal_slot(iface_of(ep), 9 + FAKE_SGL_SHIFT)(ep); }
#endif
#ifdef FAKE_GET_SGL
FAKE_EXPORT signed char uct_ep_get_sgl_zcopy(void *ep) { return internal_slot(iface_of(ep), 10 + FAKE_SGL_SHIFT)(ep); }
#endif
FAKE_EXPORT signed char uct_iface_base_query_v2(void *, unsigned long *attributes) {
    for (unsigned bit = 0; bit < 4; ++bit)
        if ((attributes[0] >> bit & 1) != 0)
            attributes[1 + bit + FAKE_ATTRIBUTE_SHIFT] = 0;
    return 0;
}

// As UCX does, it keeps what is registered for ever.
FAKE_EXPORT void *fake_component;
void *fake_component = nullptr;
FAKE_EXPORT void uct_component_register(void *component) { fake_component = component; }

// The rest is only looked up, or may do nothing.
#define FAKE_EMPTY(name)                                                                                               \
    FAKE_EXPORT void name() {}

FAKE_EMPTY(uct_tl_register)
FAKE_EMPTY(uct_base_iface_t_init)
FAKE_EMPTY(uct_iface_config_table)
FAKE_EMPTY(uct_md_config_table)
FAKE_EMPTY(uct_base_iface_query)
FAKE_EMPTY(uct_base_iface_is_reachable)
FAKE_EMPTY(uct_iface_scope_is_reachable)
FAKE_EMPTY(uct_iface_is_reachable_params_addrs_valid)
FAKE_EMPTY(uct_iface_fill_info_str_buf)
FAKE_EMPTY(uct_base_ep_is_connected)
FAKE_EMPTY(uct_base_iface_progress_enable)
FAKE_EMPTY(uct_base_iface_progress_disable)
