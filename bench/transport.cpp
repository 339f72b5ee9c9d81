// SPDX-License-Identifier: BSD-3-Clause
#include "transport.h"

#include <sched.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

// Exported by libucs, but in no header that is installed.
extern "C" {
ucs_status_t ucs_async_context_create(ucs_async_mode_t mode, ucs_async_context_t **async);
void ucs_async_context_destroy(ucs_async_context_t *async);
}

namespace bench {

void check(ucs_status_t status, const char *what) {
    if (status != UCS_OK)
        throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

Transport::Transport(std::size_t size) : m_host(size) {
    open_domain();
    open_interface();
    check(uct_md_mem_reg(m_md, m_host.data(), size, UCT_MD_MEM_ACCESS_ALL, &m_registered), "uct_md_mem_reg");
    const uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE |
                        UCT_MEM_ALLOC_PARAM_FIELD_MDS | UCT_MEM_ALLOC_PARAM_FIELD_NAME;
    params.flags = UCT_MD_MEM_ACCESS_ALL;
    params.mem_type = UCS_MEMORY_TYPE_GAUDI;
    params.mds.mds = &m_md;
    params.mds.count = 1;
    params.name = "bench";
    check(uct_mem_alloc(size, &method, 1, &params, &m_card), "uct_mem_alloc");
}

Transport::~Transport() {
    uct_mem_free(&m_card);
    uct_md_mem_dereg(m_md, m_registered);
    uct_ep_destroy(m_ep);
    uct_iface_close(m_iface);
    uct_worker_destroy(m_worker);
    ucs_async_context_destroy(m_async);
    uct_md_close(m_md);
}

void Transport::open_domain() {
    uct_component_h *components = nullptr;
    unsigned count = 0;
    check(uct_query_components(&components, &count), "uct_query_components");
    uct_component_h ours = nullptr;
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr{};
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        check(uct_component_query(components[i], &attr), "uct_component_query");
        if (std::strcmp(attr.name, "gaudi_copy") == 0)
            ours = components[i];
    }
    uct_release_component_list(components);
    if (!ours)
        throw std::runtime_error("this UCX has no gaudi_copy");
    uct_md_config_t *config = nullptr;
    check(uct_md_config_read(ours, nullptr, nullptr, &config), "uct_md_config_read");
    const ucs_status_t status = uct_md_open(ours, "gaudi_copy", config, &m_md);
    uct_config_release(config);
    check(status, "uct_md_open");
}

void Transport::open_interface() {
    check(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &m_async), "ucs_async_context_create");
    check(uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker), "uct_worker_create");
    uct_iface_config_t *config = nullptr;
    check(uct_md_iface_config_read(m_md, "gaudi_cpy", nullptr, nullptr, &config), "uct_md_iface_config_read");
    uct_iface_params_t params{};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = "gaudi_cpy";
    params.mode.device.dev_name = "gaudi";
    const ucs_status_t status = uct_iface_open(m_md, m_worker, &params, config, &m_iface);
    uct_config_release(config);
    check(status, "uct_iface_open");
    uct_iface_progress_enable(m_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);

    uct_iface_attr_t attr{};
    check(uct_iface_query(m_iface, &attr), "uct_iface_query");
    std::vector<char> address(attr.iface_addr_len);
    check(uct_iface_get_address(m_iface, reinterpret_cast<uct_iface_addr_t *>(address.data())),
          "uct_iface_get_address");
    uct_ep_params_t ep{};
    ep.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    ep.iface = m_iface;
    ep.iface_addr = reinterpret_cast<const uct_iface_addr_t *>(address.data());
    check(uct_ep_create(&ep, &m_ep), "uct_ep_create");
}

template <class Post>
void Transport::copy(std::size_t size, std::size_t stride, unsigned count, Post post) {
    uct_completion_t comp{[](uct_completion_t *) {}, static_cast<int>(count), UCS_OK};
    const auto card = reinterpret_cast<std::uint64_t>(m_card.address);
    for (unsigned i = 0; i < count; ++i) {
        const uct_iov_t iov{m_host.data() + i * stride, size, m_registered, 0, 1};
        const ucs_status_t status = post(m_ep, &iov, std::size_t{1}, card + i * stride, uct_rkey_t{0}, &comp);
        if (status != UCS_INPROGRESS) {
            check(status, "a copy");
            --comp.count;
        }
    }
    while (comp.count != 0)
        // A software card needs a core too, and there may be no other. One that takes no time is never waited for.
        if (uct_worker_progress(m_worker) == 0)
            sched_yield();
    check(comp.status, "a copy");
}

void Transport::put(std::size_t size, std::size_t stride, unsigned count) {
    copy(size, stride, count, [](auto... given) { return uct_ep_put_zcopy(given...); });
}

void Transport::get(std::size_t size, std::size_t stride, unsigned count) {
    copy(size, stride, count, [](auto... given) { return uct_ep_get_zcopy(given...); });
}

} // namespace bench
