// SPDX-License-Identifier: BSD-3-Clause
// A UCX module with Gaudi memory that is none, and a transport that does nothing and says that it is done. It promises
// UCX what ours promises, so that UCX goes the same way: what a program takes with it is UCX's own share.
//
// With BENCH_NULL_LATER set it says so at the next progress, as a transport must whose work takes time: UCX's share is
// larger then, because it keeps a request for each operation.
#include "ucx/edge.h"

#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace {

using namespace gaudi::ucx;

constexpr ucs_memory_type_t kType = UCS_MEMORY_TYPE_GAUDI;

// What UCX reckons with for ours (the defaults in src/uct/config.cpp), host memory to a card.
constexpr double kBandwidth = 24e9, kLatency = 6e-6, kOverhead = 1e-6;

std::map<char *, std::size_t> *s_memory; // where, and how much

std::map<char *, std::size_t>::iterator find(const void *address) {
    auto at = s_memory->upper_bound(static_cast<char *>(const_cast<void *>(address)));
    if (at == s_memory->begin())
        return s_memory->end();
    --at;
    return static_cast<const char *>(address) < at->first + at->second ? at : s_memory->end();
}

struct Component;

struct Md : uct_md {
    explicit Md(Component &owner);

    void close() { delete this; }
    ucs_status_t query(uct_md_attr_v2 *attr) {
        const std::uint64_t plain = memory_type_bit(UCS_MEMORY_TYPE_HOST), own = memory_type_bit(kType);
        attr->max_alloc = attr->max_reg = SIZE_MAX;
        attr->flags = UCT_MD_FLAG_ALLOC | UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH;
        attr->reg_mem_types = attr->access_mem_types = plain | own;
        attr->detect_mem_types = attr->alloc_mem_types = own;
        attr->reg_alignment = 1;
        std::memset(&attr->local_cpus, 0xff, sizeof attr->local_cpus);
        std::strcpy(attr->component_name, "null");
        return UCS_OK;
    }
    ucs_status_t mem_alloc(std::size_t *length, void **address, ucs_memory_type_t, ucs_sys_device_t, unsigned,
                           const char *, uct_mem_h *memh) {
        void *memory = mmap(nullptr, *length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return UCS_ERR_NO_MEMORY;
        s_memory->emplace(static_cast<char *>(memory), *length);
        host.call().ucs_memtype_cache_update(memory, *length, kType, UCS_SYS_DEVICE_ID_UNKNOWN,
                                             UCS_MEM_FLAG_REGISTRABLE);
        *address = *memh = memory;
        return UCS_OK;
    }
    ucs_status_t mem_free(uct_mem_h memh) {
        const auto at = find(memh);
        munmap(at->first, at->second);
        s_memory->erase(at);
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
        if (at == s_memory->end())
            return UCS_ERR_INVALID_ADDR;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) != 0)
            attr->mem_type = kType;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) != 0)
            attr->sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) != 0)
            attr->base_address = at->first;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) != 0)
            attr->alloc_length = at->second;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) != 0)
            attr->dmabuf_fd = -1;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) != 0)
            attr->dmabuf_offset = 0;
        if ((attr->field_mask & UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS) != 0)
            attr->mem_flags = UCS_MEM_FLAG_REGISTRABLE;
        return UCS_OK;
    }
    ucs_status_t detect_memory_type(const void *address, std::size_t, ucs_memory_type_t *type) {
        *type = kType;
        return find(address) == s_memory->end() ? UCS_ERR_INVALID_ADDR : UCS_OK;
    }
    ucs_status_t query_devices(uct_tl_device_resource **devices, unsigned *count) {
        *devices = host.allocate<uct_tl_device_resource>(1, "null");
        std::strcpy((*devices)->name, "null");
        (*devices)->type = UCT_DEVICE_TYPE_ACC;
        (*devices)->sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
        *count = 1;
        return UCS_OK;
    }
    ucs_status_t iface_open(uct_worker_h worker, const uct_iface_params *params, const uct_iface_config *config,
                            uct_iface_h *iface);

    static uct_md_ops s_ops;
    Host &host;
};
uct_md_ops Md::s_ops = make_md_ops<Md>();

struct Component : uct_component {
    explicit Component(Host &of) : uct_component{}, host(of) {
        std::strcpy(name, "null");
        fill_component<Component>(*this);
        md_config = {"Null memory domain", "NULL_", of.call().uct_md_config_table, 1, {}, 0};
        cm_config = {"", "", nullptr, 0, {}, 0};
        list_init(tl_list);
        std::strcpy(tl.name, "null_cpy");
        fill_tl<Md>(tl);
        tl.config = {"Null transport", "NULL_CPY_", of.call().uct_iface_config_table, sizeof(uct_iface_config), {}, 0};
    }
    ucs_status_t query_md_resources(uct_md_resource_desc **resources, unsigned *count) {
        *resources = host.allocate<uct_md_resource_desc>(1, "null");
        std::strcpy((*resources)->md_name, "null");
        *count = 1;
        return UCS_OK;
    }
    ucs_status_t md_open(const char *, const uct_md_config *, uct_md_h *md) {
        *md = new Md(*this);
        // The memory-type cache takes nothing before it has been asked for something.
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

Md::Md(Component &owner) : uct_md{&s_ops, &owner}, host(owner.host) {}

struct Ep : uct_ep {
    ucs_status_t put_short(const void *, unsigned, std::uint64_t, uct_rkey_t) { return UCS_OK; }
    ucs_status_t get_short(void *, unsigned, std::uint64_t, uct_rkey_t) { return UCS_OK; }
    ucs_status_t put_zcopy(const uct_iov *, std::size_t, std::uint64_t, uct_rkey_t, uct_completion *comp) {
        return end(comp);
    }
    ucs_status_t get_zcopy(const uct_iov *, std::size_t, std::uint64_t, uct_rkey_t, uct_completion *comp) {
        return end(comp);
    }
    ucs_status_t pending_add(uct_pending_req *, unsigned) { return UCS_ERR_BUSY; }
    void pending_purge(uct_pending_purge_callback_t, void *) {}
    ucs_status_t flush(unsigned flags, uct_completion *comp);
    ucs_status_t fence(unsigned) { return UCS_OK; }
    void destroy() { delete this; }

    ucs_status_t end(uct_completion *comp);
};

struct Iface : uct_base_iface {
    explicit Iface(Md &md_) : domain(md_), later(std::getenv("BENCH_NULL_LATER") != nullptr) {}

    void close() {
        host().uct_base_iface_progress_disable(&super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        host().ucs_class_call_cleanup_chain(host().uct_base_iface_t_class, this, -1);
        delete this;
    }
    ucs_status_t query(uct_iface_attr *attr) {
        host().uct_base_iface_query(this, attr);
        attr->iface_addr_len = sizeof(std::uint64_t);
        attr->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_GET_SHORT |
                          UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING;
        for (uct_iface_rma_limits *limits : {&attr->cap.put, &attr->cap.get})
            *limits = {UINT_MAX, 0, 0, SIZE_MAX, 1, 1, 1};
        attr->overhead = kOverhead;
        attr->bandwidth = {0, kBandwidth};
        attr->latency = {kLatency, 0};
        return UCS_OK;
    }
    ucs_status_t estimate_perf(uct_perf_attr *attr) {
        const auto given = [&](std::uint64_t field) { return (attr->field_mask & field) != 0; };
        if (given(UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE) && given(UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE)) {
            const auto ours = [](ucs_memory_type_t type) { return type == kType || type == UCS_MEMORY_TYPE_HOST; };
            const auto local = attr->local_memory_type, remote = attr->remote_memory_type;
            if (!ours(local) || !ours(remote) || (local == UCS_MEMORY_TYPE_HOST && remote == UCS_MEMORY_TYPE_HOST))
                return UCS_ERR_UNSUPPORTED;
        }
        const bool is_short = given(UCT_PERF_ATTR_FIELD_OPERATION) &&
                              (attr->operation == UCT_EP_OP_PUT_SHORT || attr->operation == UCT_EP_OP_GET_SHORT);
        attr->send_pre_overhead = kOverhead;
        attr->send_post_overhead = is_short ? kLatency : 0;
        attr->recv_overhead = 0;
        attr->bandwidth = {0, is_short ? kBandwidth * 0.95 : kBandwidth};
        attr->path_bandwidth = {0, kBandwidth};
        attr->latency = {is_short ? 0 : kLatency, 0};
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
               host().uct_iface_scope_is_reachable(&super, params);
    }
    ucs_status_t flush(unsigned, uct_completion *comp) { return waiting.empty() ? UCS_OK : end(comp); }
    ucs_status_t fence(unsigned) { return UCS_OK; }
    ucs_status_t end(uct_completion *comp) {
        if (!later)
            return UCS_OK;
        if (comp)
            waiting.push_back(comp);
        return UCS_INPROGRESS;
    }
    unsigned progress() {
        if (waiting.empty())
            return 0;
        std::swap(waiting, ending); // whoever hears of an end may start the next
        for (uct_completion *comp : ending)
            if (--comp->count == 0)
                comp->func(comp);
        const auto count = static_cast<unsigned>(ending.size());
        ending.clear();
        return count;
    }
    ucs_status_t create_ep(const uct_ep_params *, uct_ep_h *ep) {
        *ep = new Ep{{&super}};
        return UCS_OK;
    }

    /// A forked process has the same addresses.
    std::uint64_t id() const {
        return reinterpret_cast<std::uint64_t>(this) ^ static_cast<std::uint64_t>(getpid()) << 48;
    }
    const Functions &host() const { return domain.host.call(); }
    Md &domain;
    const bool later;
    std::vector<uct_completion *> waiting, ending;
};

ucs_status_t Ep::end(uct_completion *comp) { return edge::object<Iface>(iface).end(comp); }
ucs_status_t Ep::flush(unsigned flags, uct_completion *comp) { return edge::object<Iface>(iface).flush(flags, comp); }

ucs_status_t Md::iface_open(uct_worker_h worker, const uct_iface_params *params, const uct_iface_config *config,
                            uct_iface_h *iface) {
    auto made = std::make_unique<Iface>(*this);
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

} // namespace

extern "C" __attribute__((visibility("protected"))) signed char ucs_module_global_init() {
    const auto host = Host::of(__builtin_return_address(0));
    if (!host || !(*host)->find_uct())
        return UCS_ERR_UNSUPPORTED;
    s_memory = new std::map<char *, std::size_t>;
    auto *component = new Component(**host);
    (*host)->call().uct_component_register(component);
    (*host)->call().uct_tl_register(component, &component->tl);
    return UCS_OK;
}
