// SPDX-License-Identifier: BSD-3-Clause
// The base of foreign UCX modules for tests and benchmarks: a domain with memory of one type, and a transport within the
// process. A module adds its memory, its performance figures and its copies.
#pragma once

// g++ 12 reports the call of a base class's function in edge.h as type punning.
#pragma GCC diagnostic ignored "-Wstrict-aliasing"
#include "ucx/edge.h"

#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <map>
#include <memory>

namespace plain {

using namespace gaudi::ucx;

struct Names {
    const char *domain, *transport;               // the component and the device have the domain's name
    const char *domain_prefix, *transport_prefix; // of environment variables
};

struct Piece {
    std::size_t length;
    int file; // exported as dma-buf; -1: not exported
};
inline std::map<char *, Piece> &s_memory = *new std::map<char *, Piece>;

inline std::map<char *, Piece>::iterator find(const void *address) {
    auto at = s_memory.upper_bound(static_cast<char *>(const_cast<void *>(address)));
    if (at == s_memory.begin())
        return s_memory.end();
    --at;
    return static_cast<const char *>(address) < at->first + at->second.length ? at : s_memory.end();
}

/// `Own` has the constant kNames and `static void *map(length, file)`, which returns memory and sets its file, if any.
template <class Own, class Iface>
struct Md : uct_md {
    Md(uct_component &owner, Host &of) : uct_md{nullptr, &owner}, host(of) {
        static auto *const s_ops = new uct_md_ops(make_md_ops<Own>());
        ops = s_ops;
    }

    void close() { delete static_cast<Own *>(this); }
    ucs_status_t query(uct_md_attr_v2 *attr) {
        const std::uint64_t plain = memory_type_bit(UCS_MEMORY_TYPE_HOST), own = memory_type_bit(Iface::kType);
        attr->max_alloc = attr->max_reg = SIZE_MAX;
        attr->flags = UCT_MD_FLAG_ALLOC | UCT_MD_FLAG_REG;
        attr->reg_mem_types = attr->access_mem_types = plain | own;
        attr->detect_mem_types = attr->alloc_mem_types = own;
        attr->reg_alignment = 1;
        std::memset(&attr->local_cpus, 0xff, sizeof attr->local_cpus);
        std::strcpy(attr->component_name, Own::kNames.domain);
        return UCS_OK;
    }
    ucs_status_t mem_alloc(std::size_t *length, void **address, ucs_memory_type_t, ucs_sys_device_t, unsigned,
                           const char *, uct_mem_h *memh) {
        int file = -1;
        void *memory = Own::map(*length, file);
        if (memory == MAP_FAILED)
            return UCS_ERR_NO_MEMORY;
        s_memory.emplace(static_cast<char *>(memory), Piece{*length, file});
        host.call().ucs_memtype_cache_update(memory, *length, Iface::kType, UCS_SYS_DEVICE_ID_UNKNOWN,
                                             UCS_MEM_FLAG_REGISTRABLE);
        *address = *memh = memory;
        return UCS_OK;
    }
    ucs_status_t mem_free(uct_mem_h memh) {
        const auto at = find(memh);
        munmap(at->first, at->second.length);
        if (at->second.file >= 0)
            ::close(at->second.file);
        s_memory.erase(at);
        return UCS_OK;
    }
    ucs_status_t mem_reg(void *address, std::size_t, const uct_md_mem_reg_params *, uct_mem_h *memh) {
        *memh = address;
        return UCS_OK;
    }
    ucs_status_t mem_dereg(const uct_md_mem_dereg_params *) { return UCS_OK; }
    ucs_status_t mkey_pack(uct_mem_h, void *, std::size_t, const uct_md_mkey_pack_params *, void *) { return UCS_OK; }
    ucs_status_t mem_query(const void *address, std::size_t, uct_md_mem_attr_v2 *attr) {
        const auto at = find(address);
        if (at == s_memory.end())
            return UCS_ERR_INVALID_ADDR;
        const auto [length, file] = at->second;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) != 0)
            attr->mem_type = Iface::kType;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) != 0)
            attr->sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) != 0)
            attr->base_address = at->first;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) != 0)
            attr->alloc_length = length;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) != 0)
            attr->dmabuf_fd = file < 0 ? -1 : dup(file);
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) != 0)
            attr->dmabuf_offset =
                file < 0 ? 0 : static_cast<std::size_t>(static_cast<const char *>(address) - at->first);
        if ((attr->field_mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS) != 0)
            attr->mem_flags = UCS_MEM_FLAG_REGISTRABLE;
        return UCS_OK;
    }
    ucs_status_t detect_memory_type(const void *address, std::size_t, ucs_memory_type_t *type) {
        *type = Iface::kType;
        return find(address) == s_memory.end() ? UCS_ERR_INVALID_ADDR : UCS_OK;
    }
    ucs_status_t query_devices(uct_tl_device_resource **devices, unsigned *count) {
        *devices = host.allocate<uct_tl_device_resource>(1, Own::kNames.domain);
        std::strcpy((*devices)->name, Own::kNames.domain);
        (*devices)->type = UCT_DEVICE_TYPE_ACC;
        (*devices)->sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
        *count = 1;
        return UCS_OK;
    }
    ucs_status_t iface_open(uct_worker_h worker, const uct_iface_params *params, const uct_iface_config *config,
                            uct_iface_h *iface) {
        using Ep = typename Iface::Endpoint;
        auto made = std::make_unique<Iface>(host);
        auto operations = make_iface_ops<Iface, Ep>(host);
        static auto *internal = new uct_iface_internal_ops(make_iface_internal_ops<Iface, Ep>(host));
        int count = 1;
        if (const ucs_status_t status =
                host.call().uct_base_iface_t_init(made.get(), host.call().uct_base_iface_t_class, &count, &operations,
                                                  internal, this, worker, params, config);
            status != UCS_OK)
            return status;
        *iface = &made.release()->super;
        return UCS_OK;
    }

    Host &host;
};

template <class Md>
struct Component : uct_component {
    explicit Component(Host &of) : uct_component{}, host(of) {
        const Names &names = Md::kNames;
        std::strcpy(name, names.domain);
        fill_component<Component>(*this);
        md_config = {names.domain, names.domain_prefix, of.call().uct_md_config_table, 1, {}, 0};
        cm_config = {"", "", nullptr, 0, {}, 0};
        list_init(tl_list);
        std::strcpy(tl.name, names.transport);
        fill_tl<Md>(tl);
        tl.config = {
            names.transport, names.transport_prefix, of.call().uct_iface_config_table, sizeof(uct_iface_config), {}, 0};
    }
    ucs_status_t query_md_resources(uct_md_resource_desc **resources, unsigned *count) {
        *resources = host.allocate<uct_md_resource_desc>(1, name);
        std::strcpy((*resources)->md_name, name);
        *count = 1;
        return UCS_OK;
    }
    ucs_status_t md_open(const char *, const uct_md_config *, uct_md_h *md) {
        *md = new Md(*this, host);
        // UCX ignores updates of the memory-type cache before its first lookup.
        ucs_memory_info info{};
        host.call().ucs_memtype_cache_lookup(this, 1, &info);
        return UCS_OK;
    }
    ucs_status_t rkey_unpack(const void *, const uct_rkey_unpack_params *, uct_rkey_t *rkey, void **handle) {
        *rkey = 0;
        *handle = nullptr;
        return UCS_OK;
    }
    ucs_status_t rkey_release(uct_rkey_t, void *) { return UCS_OK; }

    Host &host;
    uct_tl tl{};
};

/// `Own` adds put_short, get_short, put_zcopy and get_zcopy.
template <class Own>
struct Ep : uct_ep {
    explicit Ep(uct_iface_h from) : uct_ep{from} {}

    ucs_status_t pending_add(uct_pending_req *, unsigned) { return UCS_ERR_BUSY; }
    void pending_purge(uct_pending_purge_callback_t, void *) {}
    ucs_status_t flush(unsigned, uct_completion *) { return UCS_OK; }
    ucs_status_t fence(unsigned) { return UCS_OK; }
    void destroy() { delete static_cast<Own *>(this); }
};

/// `Own` has the constants kType (of the memory), kOverhead, kBandwidth and kLatency.
template <class Own, class Ep>
struct Iface : uct_base_iface {
    using Endpoint = Ep;

    explicit Iface(Host &of) : host(of) {}

    void close() {
        host.call().uct_base_iface_progress_disable(&super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        host.call().ucs_class_call_cleanup_chain(host.call().uct_base_iface_t_class, this, -1);
        delete static_cast<Own *>(this);
    }
    ucs_status_t query(uct_iface_attr *attr) {
        host.call().uct_base_iface_query(this, attr);
        attr->iface_addr_len = sizeof(std::uint64_t);
        attr->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_GET_SHORT |
                          UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING;
        for (uct_iface_rma_limits *limits : {&attr->cap.put, &attr->cap.get})
            *limits = {UINT_MAX, 0, 0, SIZE_MAX, 1, 1, 1};
        attr->overhead = Own::kOverhead;
        attr->bandwidth = {0, Own::kBandwidth};
        attr->latency = {Own::kLatency, 0};
        return UCS_OK;
    }
    ucs_status_t estimate_perf(uct_perf_attr *attr) {
        const auto given = [&](std::uint64_t field) { return (attr->field_mask & field) != 0; };
        if (given(UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE) && given(UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE)) {
            const auto local = attr->local_memory_type, remote = attr->remote_memory_type;
            const auto supported = [](ucs_memory_type_t type) {
                return type == Own::kType || type == UCS_MEMORY_TYPE_HOST;
            };
            if (!supported(local) || !supported(remote) ||
                (local == UCS_MEMORY_TYPE_HOST && remote == UCS_MEMORY_TYPE_HOST))
                return UCS_ERR_UNSUPPORTED;
        }
        attr->send_pre_overhead = Own::kOverhead;
        attr->send_post_overhead = attr->recv_overhead = 0;
        attr->bandwidth = attr->path_bandwidth = {0, Own::kBandwidth};
        attr->latency = {Own::kLatency, 0};
        attr->max_inflight_eps = SIZE_MAX;
        attr->flags = 0;
        return UCS_OK;
    }
    ucs_status_t get_address(uct_iface_addr *address) {
        const std::uint64_t own = id();
        std::memcpy(static_cast<void *>(address), &own, sizeof own);
        return UCS_OK;
    }
    ucs_status_t get_device_address(uct_device_addr *) { return UCS_OK; }
    int is_reachable_v2(const uct_iface_is_reachable_params *params) {
        const std::uint64_t own = id();
        return params->iface_addr &&
               std::memcmp(static_cast<const void *>(params->iface_addr), &own, sizeof own) == 0 &&
               host.call().uct_iface_scope_is_reachable(&super, params);
    }
    ucs_status_t flush(unsigned, uct_completion *) { return UCS_OK; }
    ucs_status_t fence(unsigned) { return UCS_OK; }
    ucs_status_t create_ep(const uct_ep_params *, uct_ep_h *ep) {
        *ep = new Ep(&super);
        return UCS_OK;
    }

    /// The process id is part of it because a forked process has the same addresses.
    std::uint64_t id() const {
        return reinterpret_cast<std::uint64_t>(this) ^ static_cast<std::uint64_t>(getpid()) << 48;
    }
    Host &host;
};

/// The body of ucs_module_global_init; `caller` is the return address, in UCX.
template <class Md>
signed char start(const void *caller) {
    const auto host = Host::find(caller);
    if (!host || !(*host)->find_uct())
        return UCS_ERR_UNSUPPORTED;
    auto *component = new Component<Md>(**host);
    (*host)->call().uct_component_register(component);
    (*host)->call().uct_tl_register(component, &component->tl);
    return UCS_OK;
}

} // namespace plain
