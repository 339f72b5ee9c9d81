// SPDX-License-Identifier: BSD-3-Clause
#include "component.h"

#include "exit_summary.h"
#include "md.h"
#include "ucx/log.h"
#include "unpacked_key.h"

#include <atomic>
#include <string_view>

namespace gaudi::uct {

using namespace ucx;

namespace {

template <std::size_t Size>
void copy_name(char (&to)[Size], std::string_view from) {
    to[from.copy(to, Size - 1)] = '\0';
}

ucs_config_global_list_entry config_entry(const char *name, const char *prefix, ucs_config_field *table,
                                          std::size_t size) {
    ucs_config_global_list_entry entry{};
    entry.name = name;
    entry.prefix = prefix;
    entry.table = table;
    entry.size = size;
    return entry;
}

} // namespace

Component::Component(const Host &host) : uct_component{}, m_cards(host), m_tables(host) {
    copy_name(name, kComponentName);
    fill_component<Component>(*this);
    md_config = config_entry("Gaudi memory domain", "GAUDI_COPY_", m_tables.md.data(), sizeof(MdConfig));
    // The component is no connection manager: the place of its settings lists those of the process with UCX.
    cm_config = config_entry("Gaudi", kProcessPrefix, m_tables.process.data(), sizeof(ProcessConfig));
    list_init(tl_list);
    // Upstream's export-only transport is called gaudi_gdr, UCX's alias "gaudi" means only that name, and launch lines
    // use both: the transport answers to it too.
    copy_name(m_cpy.name, "gaudi_cpy");
    fill_tl<Md>(m_cpy);
    m_cpy.config = config_entry("Gaudi copy transport", kCpyPrefix, m_tables.cpy.data(), sizeof(IfaceConfig));
    copy_name(m_gdr.name, "gaudi_gdr");
    fill_tl<Md>(m_gdr);
    m_gdr.config =
        config_entry("Gaudi copy transport, upstream's name", "GAUDI_GDR_", m_tables.gdr.data(), sizeof(IfaceConfig));
}

void Component::add_to(Host &host) {
    auto *component = new Component(host);
    host.call().uct_component_register(component);
    host.call().uct_tl_register(component, &component->m_cpy);
    host.call().uct_tl_register(component, &component->m_gdr);
}

void Component::failed(const Error &error) const noexcept {
    GAUDI_UCX_LOG(m_cards.host(), ERROR, "%s", error.text.c_str());
}

Result<void> Component::query_md_resources(uct_md_resource_desc **resources, unsigned *count) {
    *resources = nullptr;
    *count = 0;
    const auto found = m_cards.find();
    if (!found) {
        // Logged once; UCX goes on as on a machine without cards.
        static std::atomic<bool> logged{false};
        if (!logged.exchange(true))
            failed(found.error());
        return {};
    }
    if (!*found)
        return {};
    *resources = m_cards.host().allocate<uct_md_resource_desc>(1, "gaudi md resource");
    if (!*resources)
        return tl::unexpected(Error{ENOMEM, "query_md_resources", "no memory to list the gaudi_copy domain"});
    copy_name((*resources)->md_name, kComponentName);
    *count = 1;
    return {};
}

Result<void> Component::md_open(const char *, const uct_md_config *config, uct_md_h *md) {
    const auto found = m_cards.find();
    if (!found)
        return tl::unexpected(found.error());
    if (!*found)
        return tl::unexpected(
            Error{ENODEV, "md_open",
                  "gaudi_copy cannot be opened: there is no libhl-thunk; install it, or name it in GAUDI_THUNK"});
    auto opened = Md::open(*this, m_cards, **found, *reinterpret_cast<const MdConfig *>(config),
                           m_tables.expects_framework(m_cards.host()));
    if (!opened)
        return tl::unexpected(opened.error());
    if (m_tables.wants_summary(m_cards.host()))
        print_summary_at_exit();
    *md = *opened;
    return {};
}

Result<void> Component::rkey_unpack(const void *buffer, const uct_rkey_unpack_params *, uct_rkey_t *rkey,
                                    void **handle) {
    *handle = nullptr;
    Cards *known = m_cards.found();
    if (!known)
        return tl::unexpected(
            Error{ENODEV, "rkey_unpack",
                  "a remote key of gaudi_copy cannot be unpacked: this process has no gaudi_copy domain"});
    const auto key = RemoteKey::read(buffer);
    if (!key)
        return tl::unexpected(key.error());
    const auto memory = key->find_mapping(*known);
    if (!memory)
        return tl::unexpected(memory.error());
    *rkey = UnpackedKey::make(*key, *memory)->handle();
    return {};
}

ucs_status_t Component::rkey_release(uct_rkey_t rkey, void *) {
    UnpackedKey *key = UnpackedKey::is_none(rkey) ? nullptr : UnpackedKey::from(rkey);
    if (!key)
        return UCS_ERR_INVALID_PARAM;
    key->release();
    return UCS_OK;
}

ucs_status_t Component::rkey_compare(uct_rkey_t rkey1, uct_rkey_t rkey2, const uct_rkey_compare_params *params,
                                     int *result) {
    if (!result || (params && params->field_mask != 0))
        return UCS_ERR_INVALID_PARAM;
    const bool none1 = UnpackedKey::is_none(rkey1), none2 = UnpackedKey::is_none(rkey2);
    if (none1 || none2) { // before all keys
        *result = none1 && none2 ? (rkey1 < rkey2 ? -1 : rkey1 > rkey2 ? 1 : 0) : none1 ? -1 : 1;
        return UCS_OK;
    }
    const UnpackedKey *one = UnpackedKey::from(rkey1), *other = UnpackedKey::from(rkey2);
    if (!one || !other)
        return UCS_ERR_INVALID_PARAM;
    *result = UnpackedKey::compare(*one, *other);
    return UCS_OK;
}

} // namespace gaudi::uct
