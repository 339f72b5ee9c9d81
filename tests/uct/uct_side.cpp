// SPDX-License-Identifier: BSD-3-Clause
#include "uct_side.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <cstring>

namespace uct_side {

void check(ucs_status_t status, const char *what) {
    if (status != UCS_OK)
        throw Failure(std::string(what) + ": " + ucs_status_string(status));
}

Bytes pattern(std::size_t size, std::uint64_t seed) {
    Bytes bytes(size);
    std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
    for (unsigned char &byte : bytes) {
        state = state * 6364136223846793005 + 1442695040888963407;
        byte = static_cast<unsigned char>(state >> 56);
    }
    return bytes;
}

// ---- the domain -----------------------------------------------------------------------------------------------------

Domain::Domain(const Settings &settings) {
    if (!open(settings))
        throw Failure("there is no gaudi_copy");
}

std::unique_ptr<Domain> Domain::find(const Settings &settings) {
    std::unique_ptr<Domain> domain(new Domain(Nothing{}));
    return domain->open(settings) ? std::move(domain) : nullptr;
}

bool Domain::open(const Settings &settings) {
    uct_component_h *components = nullptr;
    unsigned count = 0;
    check(uct_query_components(&components, &count), "uct_query_components");
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr{};
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        check(uct_component_query(components[i], &attr), "uct_component_query");
        if (std::strcmp(attr.name, "gaudi_copy") == 0 && attr.md_resource_count == 1)
            m_component = components[i];
    }
    uct_release_component_list(components);
    if (!m_component)
        return false;
    uct_md_config_t *config = nullptr;
    check(uct_md_config_read(m_component, nullptr, nullptr, &config), "uct_md_config_read");
    for (const auto &[name, value] : settings)
        check(uct_config_modify(config, (std::string("GAUDI_COPY_") + name).c_str(), value), name);
    const ucs_status_t status = uct_md_open(m_component, "gaudi_copy", config, &m_md);
    uct_config_release(config);
    return status == UCS_OK;
}

Domain::~Domain() {
    if (m_md)
        uct_md_close(m_md);
}

uct_md_attr_t Domain::attributes() const {
    uct_md_attr_t attr{};
    check(uct_md_query(m_md, &attr), "uct_md_query");
    return attr;
}

std::optional<MemoryAttributes> Domain::query(const void *address, std::size_t length, std::uint64_t mask) const {
    MemoryAttributes attributes{};
    attributes.field_mask = mask;
    if (uct_md_mem_query_v2(m_md, address, length, &attributes) != UCS_OK)
        return {};
    return attributes;
}

std::vector<unsigned char> Domain::key(uct_mem_h memh) const {
    std::vector<unsigned char> key(attributes().rkey_packed_size);
    check(uct_md_mkey_pack(m_md, memh, key.data()), "uct_md_mkey_pack");
    return key;
}

uct_mem_h Domain::reg(void *address, std::size_t length, std::optional<RegisterParams> params) const {
    uct_mem_h memh = nullptr;
    const RegisterParams plain{1, UCT_MD_MEM_ACCESS_ALL, -1, 0, UCS_MEMORY_TYPE_HOST};
    check(uct_md_mem_reg_v2(m_md, address, length, params ? &*params : &plain, &memh), "uct_md_mem_reg_v2");
    return memh;
}

ucs_status_t Domain::dereg(uct_mem_h memh, unsigned flags) const {
    const DeregisterParams params{3, flags, memh, nullptr};
    return uct_md_mem_dereg_v2(m_md, &params);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

ucs_status_t Buffer::allocate(const Domain &domain, std::size_t size, const Wish &wish,
                              uct_allocated_memory_t &memory) {
    const uct_md_h md = domain.md();
    const uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_ADDRESS |
                        UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE | UCT_MEM_ALLOC_PARAM_FIELD_MDS |
                        UCT_MEM_ALLOC_PARAM_FIELD_NAME | UCT_MEM_ALLOC_PARAM_FIELD_SYS_DEVICE;
    params.flags = UCT_MD_MEM_ACCESS_ALL | wish.flags;
    params.address = wish.address;
    params.mem_type = UCS_MEMORY_TYPE_GAUDI;
    params.mds.mds = &md;
    params.mds.count = 1;
    params.name = "test";
    params.sys_device = wish.device;
    return uct_mem_alloc(size, &method, 1, &params, &memory);
}

Buffer::Buffer(const Domain &domain, std::size_t size, const Wish &wish) {
    check(allocate(domain, size, wish, m_memory), "uct_mem_alloc");
}

Buffer::~Buffer() {
    if (m_memory.address)
        uct_mem_free(&m_memory);
}

// ---- the transport --------------------------------------------------------------------------------------------------

Transport::Transport(Domain &domain, const char *name) {
    check(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &m_async), "ucs_async_context_create");
    check(uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker), "uct_worker_create");
    uct_iface_config_t *config = nullptr;
    check(uct_md_iface_config_read(domain.md(), name, nullptr, nullptr, &config), "uct_md_iface_config_read");
    uct_iface_params_t params{};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = name;
    params.mode.device.dev_name = "gaudi";
    const ucs_status_t status = uct_iface_open(domain.md(), m_worker, &params, config, &m_iface);
    uct_config_release(config);
    check(status, "uct_iface_open");
    uct_iface_progress_enable(m_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);

    std::vector<char> address(attributes().iface_addr_len);
    check(uct_iface_get_address(m_iface, reinterpret_cast<uct_iface_addr_t *>(address.data())),
          "uct_iface_get_address");
    uct_ep_params_t ep{};
    ep.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    ep.iface = m_iface;
    ep.iface_addr = reinterpret_cast<const uct_iface_addr_t *>(address.data());
    check(uct_ep_create(&ep, &m_ep), "uct_ep_create");
}

Transport::~Transport() {
    if (m_ep)
        uct_ep_destroy(m_ep);
    if (m_iface)
        uct_iface_close(m_iface);
    if (m_worker)
        uct_worker_destroy(m_worker);
    if (m_async)
        ucs_async_context_destroy(m_async);
}

uct_iface_attr_t Transport::attributes() const {
    uct_iface_attr_t attr{};
    check(uct_iface_query(m_iface, &attr), "uct_iface_query");
    return attr;
}

ucs_status_t Transport::finish(ucs_status_t status, uct_completion_t &comp) const {
    if (status != UCS_INPROGRESS)
        return status;
    while (comp.count != 0)
        progress();
    return comp.status;
}

ucs_status_t Transport::put(const void *from, std::uint64_t to, std::size_t length, uct_mem_h memh) const {
    uct_completion_t comp{[](uct_completion_t *) {}, 1, UCS_OK};
    const uct_iov_t iov{const_cast<void *>(from), length, memh, 0, 1};
    return finish(uct_ep_put_zcopy(m_ep, &iov, 1, to, 0, &comp), comp);
}

ucs_status_t Transport::get(void *to, std::uint64_t from, std::size_t length, uct_mem_h memh) const {
    uct_completion_t comp{[](uct_completion_t *) {}, 1, UCS_OK};
    const uct_iov_t iov{to, length, memh, 0, 1};
    return finish(uct_ep_get_zcopy(m_ep, &iov, 1, from, 0, &comp), comp);
}

ucs_status_t Transport::flush() const {
    uct_completion_t comp{[](uct_completion_t *) {}, 1, UCS_OK};
    return finish(uct_ep_flush(m_ep, UCT_FLUSH_FLAG_LOCAL, &comp), comp);
}

void Transport::write(const Buffer &buffer, const Bytes &bytes, std::size_t offset) const {
    check(put(bytes.data(), buffer.address(offset), bytes.size()), "put");
}

Bytes Transport::read(const Buffer &buffer, std::size_t length, std::size_t offset) const {
    Bytes bytes(length);
    check(get(bytes.data(), buffer.address(offset), length), "get");
    return bytes;
}

// ---- counts ---------------------------------------------------------------------------------------------------------

namespace {

/// For each card.
nlohmann::json report() {
    std::FILE *pipe = popen(SOFTGAUDI_STAT " --json", "re");
    std::string text;
    std::array<char, 4096> piece{};
    while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
        text.append(piece.data(), got);
    if (pclose(pipe) != 0)
        throw Failure("softgaudi_stat failed");
    return nlohmann::json::parse(text).at("cards");
}

} // namespace

std::uint64_t counted(const char *what) {
    std::uint64_t sum = 0;
    const nlohmann::json cards = report();
    for (const auto &card : cards)
        sum += card.at(what).get<std::uint64_t>();
    return sum;
}

std::uint64_t calls(const char *function) {
    std::uint64_t sum = 0;
    const nlohmann::json cards = report();
    for (const auto &card : cards)
        sum += card.at("calls").value(function, std::uint64_t{0});
    return sum;
}

} // namespace uct_side
