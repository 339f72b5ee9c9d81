// SPDX-License-Identifier: BSD-3-Clause
#include "uct_open.h"

#include <cstring>

// Exported by libucs, but not declared in an installed header.
extern "C" {
ucs_status_t ucs_async_context_create(ucs_async_mode_t mode, ucs_async_context_t **async);
void ucs_async_context_destroy(ucs_async_context_t *async);
}

namespace uct_open {

void check(ucs_status_t status, const char *what) {
    if (status != UCS_OK)
        throw Failure(std::string(what) + ": " + ucs_status_string(status));
}

// ---- the domain -----------------------------------------------------------------------------------------------------

namespace {

/// The name of the component's first domain; empty for other components and those without one.
std::string first_domain(uct_component_h candidate, const char *component) {
    uct_component_attr_t attr{};
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    check(uct_component_query(candidate, &attr), "uct_component_query");
    if (std::strcmp(attr.name, component) != 0 || attr.md_resource_count == 0)
        return {};
    std::vector<uct_md_resource_desc_t> resources(attr.md_resource_count);
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = resources.data();
    check(uct_component_query(candidate, &attr), "uct_component_query");
    return resources[0].md_name;
}

} // namespace

Domain::Domain(const char *component, const Settings &settings) {
    const ucs_status_t status = open(component, settings);
    if (status == UCS_ERR_NO_ELEM)
        throw Failure(std::string("this UCX has no memory domain of component ") + component);
    check(status, "uct_md_open");
}

Domain::~Domain() {
    if (m_md)
        uct_md_close(m_md);
}

ucs_status_t Domain::open(const char *component, const Settings &settings) {
    uct_component_h *components = nullptr;
    unsigned count = 0;
    check(uct_query_components(&components, &count), "uct_query_components");
    std::string name;
    for (unsigned i = 0; i < count && name.empty(); ++i) {
        m_component = components[i];
        name = first_domain(m_component, component);
    }
    uct_release_component_list(components);
    if (name.empty())
        return UCS_ERR_NO_ELEM;
    uct_md_config_t *config = nullptr;
    check(uct_md_config_read(m_component, nullptr, nullptr, &config), "uct_md_config_read");
    for (const auto &[variable, value] : settings)
        check(uct_config_modify(config, variable.c_str(), value), variable.c_str());
    const ucs_status_t status = uct_md_open(m_component, name.c_str(), config, &m_md);
    uct_config_release(config);
    return status;
}

// ---- an interface ---------------------------------------------------------------------------------------------------

Interface::Interface(const Domain &domain, const char *transport, const char *device) {
    check(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &m_async), "ucs_async_context_create");
    check(uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker), "uct_worker_create");
    uct_iface_config_t *config = nullptr;
    check(uct_md_iface_config_read(domain.md(), transport, nullptr, nullptr, &config), "uct_md_iface_config_read");
    uct_iface_params_t params{};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = transport;
    params.mode.device.dev_name = device;
    const ucs_status_t status = uct_iface_open(domain.md(), m_worker, &params, config, &m_iface);
    uct_config_release(config);
    check(status, "uct_iface_open");
    uct_iface_progress_enable(m_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

Interface::~Interface() {
    uct_iface_close(m_iface);
    uct_worker_destroy(m_worker);
    ucs_async_context_destroy(m_async);
}

uct_iface_attr_t Interface::attributes() const {
    uct_iface_attr_t attr{};
    check(uct_iface_query(m_iface, &attr), "uct_iface_query");
    return attr;
}

namespace {

Endpoint create(const uct_ep_params_t &params) {
    uct_ep_h ep = nullptr;
    check(uct_ep_create(&params, &ep), "uct_ep_create");
    return Endpoint(ep);
}

} // namespace

Endpoint Interface::endpoint() const {
    uct_ep_params_t params{};
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    params.iface = m_iface;
    return create(params);
}

Endpoint Interface::endpoint_to_itself() const {
    std::vector<char> address(attributes().iface_addr_len);
    check(uct_iface_get_address(m_iface, reinterpret_cast<uct_iface_addr_t *>(address.data())),
          "uct_iface_get_address");
    uct_ep_params_t params{};
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = m_iface;
    params.iface_addr = reinterpret_cast<const uct_iface_addr_t *>(address.data());
    return create(params);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

CardMemory::CardMemory(const Domain &gaudi, std::size_t size) {
    const uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    const uct_md_h md = gaudi.md();
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE |
                        UCT_MEM_ALLOC_PARAM_FIELD_MDS | UCT_MEM_ALLOC_PARAM_FIELD_NAME;
    params.flags = UCT_MD_MEM_ACCESS_ALL;
    params.mem_type = UCS_MEMORY_TYPE_GAUDI;
    params.mds.mds = &md;
    params.mds.count = 1;
    params.name = "card memory";
    check(uct_mem_alloc(size, &method, 1, &params, &m_memory), "uct_mem_alloc");
}

} // namespace uct_open
