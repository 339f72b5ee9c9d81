// SPDX-License-Identifier: BSD-3-Clause
#include "component.h"

#include "gaudi/host_cache.h"
#include "md.h"
#include "ucx/log.h"
#include "unpacked_key.h"

#include <fmt/format.h>

#include <filesystem>
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

/// UCX places a device by the path behind this entry. A device without one has no distance from anything, and naming it to
/// UCX 1.22 and 1.23 deadlocks them: they log about it with their topology's lock held, and the log takes that lock.
bool has_sysfs_entry(const std::string &bus_id) {
    std::error_code error;
    return std::filesystem::exists("/sys/bus/pci/devices/" + bus_id, error);
}

} // namespace

Component::Component(Host &host) : uct_component{}, m_host(host), m_tables(host) {
    copy_name(name, kComponentName);
    fill_component<Component>(*this);
    md_config = config_entry("Gaudi memory domain", "GAUDI_COPY_", m_tables.md.data(), sizeof(MdConfig));
    cm_config = config_entry("", "", nullptr, 0);
    list_init(tl_list);
    // Upstream's export-only transport is called gaudi_gdr, UCX's alias "gaudi" means only that name, and launch lines
    // use both: the transport answers to it too.
    copy_name(m_cpy.name, "gaudi_cpy");
    fill_tl<Md>(m_cpy);
    m_cpy.config = config_entry("Gaudi copy transport", "GAUDI_CPY_", m_tables.cpy.data(), sizeof(IfaceConfig));
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

void Component::failed(const Error &error) const noexcept { GAUDI_UCX_LOG(m_host, ERROR, "%s", error.text.c_str()); }

/// The cards with their names in this UCX's topology; null where there is no library to ask.
Result<Cards *> Component::cards() {
    auto found = Cards::get();
    if (!found)
        return found;
    // With the library but no card there is a domain all the same: without one UCP cannot plan a rendezvous with a peer
    // whose memory is on a card, and fails it.
    if (!(*found)->has_library())
        return nullptr;
    const std::lock_guard guard(m_mutex);
    if (m_cards)
        return m_cards;
    for (const auto &card : (*found)->all()) {
        ucs_sys_device_t device = UCS_SYS_DEVICE_ID_UNKNOWN;
        if (has_sysfs_entry(card->bus_id()) &&
            m_host.call().ucs_topo_find_device_by_bdf_name(card->bus_id().c_str(), &device) == UCS_OK)
            m_host.call().ucs_topo_sys_device_set_name(device, fmt::format("GAUDI_{}", card->index()).c_str(), 10);
        else
            device = UCS_SYS_DEVICE_ID_UNKNOWN;
        m_sys_devices.push_back(device);
    }
    m_cards = *found;
    return m_cards;
}

Result<void> Component::query_md_resources(uct_md_resource_desc **resources, unsigned *count) {
    *resources = nullptr;
    *count = 0;
    const auto found = cards();
    if (!found) {
        // Said once, and then UCX goes on as on a machine without cards.
        static std::atomic<bool> said{false};
        if (!said.exchange(true))
            failed(found.error());
        return {};
    }
    if (!*found)
        return {};
    *resources = m_host.allocate<uct_md_resource_desc>(1, "gaudi md resource");
    if (!*resources)
        return tl::unexpected(Error{ENOMEM, "query_md_resources", "no memory to list the gaudi_copy domain"});
    copy_name((*resources)->md_name, kComponentName);
    *count = 1;
    return {};
}

Result<void> Component::md_open(const char *, const uct_md_config *config, uct_md_h *md) {
    const auto found = cards();
    if (!found)
        return tl::unexpected(found.error());
    if (!*found)
        return tl::unexpected(Error{ENODEV, "md_open", "there is no libhl-thunk on this machine"});
    auto opened = Md::open(*this, **found, *reinterpret_cast<const MdConfig *>(config));
    if (!opened)
        return tl::unexpected(opened.error());
    *md = *opened;
    return {};
}

Result<void> Component::rkey_unpack(const void *buffer, const uct_rkey_unpack_params *, uct_rkey_t *rkey,
                                    void **handle) {
    *handle = nullptr;
    if (!m_cards)
        return tl::unexpected(Error{ENODEV, "rkey_unpack", "there is no Gaudi card"});
    const auto key = RemoteKey::read(buffer);
    if (!key)
        return tl::unexpected(key.error());
    const auto holder = key->resolve(*m_cards);
    if (!holder)
        return tl::unexpected(holder.error());
    *rkey = UnpackedKey::make(*key, *holder)->handle();
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

ucs_sys_device_t Component::sys_device(const Card &card) const {
    return card.index() < m_sys_devices.size() ? m_sys_devices[card.index()] : UCS_SYS_DEVICE_ID_UNKNOWN;
}

Card *Component::card_of(ucs_sys_device_t sys_device) const {
    for (std::size_t i = 0; i < m_sys_devices.size(); ++i)
        if (m_sys_devices[i] == sys_device && sys_device != UCS_SYS_DEVICE_ID_UNKNOWN)
            return m_cards->all()[i].get();
    return nullptr;
}

std::uint8_t Component::mem_flags(const Region &region) const {
    return m_dmabuf.load(std::memory_order_relaxed) != UCS_NO && region.exportable() ? UCS_MEM_FLAG_REGISTRABLE : 0;
}

void Component::begin_domain(ucs_ternary_auto_value_t dmabuf) {
    m_dmabuf.store(dmabuf, std::memory_order_relaxed);
    if (dmabuf == UCS_NO)
        say_staged("UCX_GAUDI_COPY_DMABUF=n");
}

/// A NIC may pass UCX's probe for dma-bufs and then refuse to register one. UCX fails the program's call then, asks no other
/// module and tells none, so the way out is told beforehand.
void Component::advise_on_refusal() {
    if (m_advised.load(std::memory_order_relaxed) || m_advised.exchange(true))
        return;
    GAUDI_UCX_LOG(m_host, DIAG,
                  "RDMA devices get Gaudi memory as a dma-buf: if one refuses it (ibv_reg_dmabuf_mr fails), "
                  "UCX_GAUDI_COPY_DMABUF=n stages it through host memory instead");
}

/// Once, and as loud as the user's wish for zero copy was.
void Component::say_staged(const char *why) {
    if (m_said_staged.exchange(true))
        return;
    if (m_dmabuf.load(std::memory_order_relaxed) == UCS_YES)
        GAUDI_UCX_LOG(m_host, WARN, "RDMA devices reach Gaudi memory through host memory only: %s", why);
    else
        GAUDI_UCX_LOG(m_host, DIAG, "RDMA devices reach Gaudi memory through host memory only: %s", why);
}

/// Who opens a domain at the same time waits: without it, its memory would be host memory for a moment.
void Component::start_listening(Cards &cards) {
    std::call_once(m_listening, [&] {
        // The cache takes nothing before it exists, and it comes to life at the first question.
        if (m_host.call().ucs_memtype_cache_global_create) {
            m_host.call().ucs_memtype_cache_global_create();
        } else {
            ucs_memory_info info{};
            m_host.call().ucs_memtype_cache_lookup(this, 1, &info);
        }
        have_asked(cards.window());
        cards.add_listener(*this);
        watch_host_memory();
    });
}

/// Mappings of unregistered host memory are kept only where UCX sees memory go away.
void Component::watch_host_memory() {
    constexpr int kPriority = 1000;
    const auto forget = [](ucm_event_type_t, ucm_event *event, void *) {
        HostCache::forget(reinterpret_cast<std::uint64_t>(event->vm_unmapped.address), event->vm_unmapped.size);
    };
    if (m_host.call().ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, kPriority, forget, nullptr) == UCS_OK)
        HostCache::get().enable();
}

/// Whatever is not in UCX's cache UCX takes for host memory and never asks about; what is there as unknown it does. Entered
/// before anybody has a card open, because whoever opens one later need not be seen. No processor has these addresses, so
/// nobody else is asked about; but a cache that is not empty costs host messages a look into it.
void Component::have_asked(Range range) {
    if (range.length != 0)
        m_host.call().ucs_memtype_cache_update(reinterpret_cast<const void *>(range.base), range.length,
                                               UCS_MEMORY_TYPE_UNKNOWN, UCS_SYS_DEVICE_ID_UNKNOWN, 0);
}

void Component::tell(ucm_event_type_t type, const Region &region) {
    ucm_event event{};
    event.mem_type.address = reinterpret_cast<void *>(region.base());
    event.mem_type.size = region.size();
    event.mem_type.mem_type = UCS_MEMORY_TYPE_GAUDI;
    event.mem_type.sys_dev = sys_device(region.card());
    event.mem_type.mem_flags = mem_flags(region);
    m_host.call().ucm_event_enter();
    m_host.call().ucm_event_dispatch(type, &event);
    m_host.call().ucm_event_leave();
}

/// Not the event for freed device memory: that would also make the range host memory to the memory-type cache, for a moment.
/// No processor has these addresses, so to other listeners nothing was unmapped.
void Component::drop_cached_registrations(Range range) {
    ucm_event event{};
    event.vm_unmapped.address = reinterpret_cast<void *>(range.base);
    event.vm_unmapped.size = range.length;
    m_host.call().ucm_event_enter();
    m_host.call().ucm_event_dispatch(UCM_EVENT_VM_UNMAPPED, &event);
    m_host.call().ucm_event_leave();
}

void Component::mapped(const Region &region) {
    if (!region.exportable() && m_dmabuf.load(std::memory_order_relaxed) != UCS_NO)
        say_staged(region.why_no_export().c_str());
    tell(UCM_EVENT_MEM_TYPE_ALLOC, region);
}

void Component::unmapping(const Region &region) {
    tell(UCM_EVENT_MEM_TYPE_FREE, region); // registrations go before the memory does
    have_asked({region.base(), region.size()});
}

void Component::left(const Card &card) {
    GAUDI_UCX_LOG(m_host, INFO, "card %u (%s) was closed by the program that had opened it: its memory is gone",
                  card.index(), card.bus_id().c_str());
}

} // namespace gaudi::uct
