// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_cards.h"

#include "gaudi/counters/counter_page.h"
#include "gaudi/host/host_cache.h"
#include "gaudi/memory/tensor_handle.h"
#include "os/format.h"
#include "ucx/log.h"

#include <sys/mman.h>

#include <filesystem>
#include <string>

namespace gaudi::uct {

using namespace ucx;

namespace {

/// UCX places a device by the path behind this entry. A device without one has no distance from anything, and naming it to
/// UCX 1.22 and 1.23 deadlocks them: they log about it with their topology's lock held, and the log takes that lock.
bool has_sysfs_entry(const std::string &bus_id) {
    std::error_code error;
    return std::filesystem::exists("/sys/bus/pci/devices/" + bus_id, error);
}

} // namespace

/// The cards with their names in this UCX's topology; null where there is no library to ask.
Result<Cards *> UcxCards::find() {
    auto found = Cards::get();
    if (!found)
        return found;
    // With the library but no card there is a domain all the same: without one UCP cannot plan a rendezvous with a peer
    // whose memory is on a card, and fails it.
    if (!(*found)->has_library())
        return nullptr;
    const os::MutexLock lock(m_mutex);
    if (Cards *known = m_cards.load(std::memory_order_acquire))
        return known;
    for (const auto &card : (*found)->all()) {
        ucs_sys_device_t device = UCS_SYS_DEVICE_ID_UNKNOWN;
        if (has_sysfs_entry(card->bus_id()) &&
            m_host.call().ucs_topo_find_device_by_bdf_name(card->bus_id().c_str(), &device) == UCS_OK)
            m_host.call().ucs_topo_sys_device_set_name(device, os::format("GAUDI_{}", card->number()).c_str(), 10);
        else
            device = UCS_SYS_DEVICE_ID_UNKNOWN;
        m_sys_devices.push_back(device);
    }
    m_cards.store(*found, std::memory_order_release);
    return *found;
}

ucs_sys_device_t UcxCards::sys_device(const Card &card) const {
    return card.slot() < m_sys_devices.size() ? m_sys_devices[card.slot()] : UCS_SYS_DEVICE_ID_UNKNOWN;
}

Card *UcxCards::card_of(ucs_sys_device_t sys_device) const {
    for (std::size_t i = 0; i < m_sys_devices.size(); ++i)
        if (m_sys_devices[i] == sys_device && sys_device != UCS_SYS_DEVICE_ID_UNKNOWN)
            return m_cards.load(std::memory_order_acquire)->all()[i].get();
    return nullptr;
}

std::uint8_t UcxCards::mem_flags(const Region &region) const {
    return m_dmabuf.load(std::memory_order_relaxed) != UCS_NO && region.exportable() ? UCS_MEM_FLAG_REGISTRABLE : 0;
}

void UcxCards::begin_domain(ucs_ternary_auto_value_t dmabuf) {
    m_dmabuf.store(dmabuf, std::memory_order_relaxed);
    if (dmabuf == UCS_NO)
        report_staged("UCX_GAUDI_COPY_DMABUF=n");
}

/// A NIC may pass UCX's probe for dma-bufs and then refuse to register one. UCX fails the program's call then and notifies no
/// module, so the way out is logged beforehand.
void UcxCards::advise_on_refused_dmabuf() {
    if (m_advised.load(std::memory_order_relaxed) || m_advised.exchange(true))
        return;
    GAUDI_UCX_LOG(m_host, DIAG,
                  "RDMA devices get Gaudi memory as a dma-buf: if one refuses it (ibv_reg_dmabuf_mr fails), "
                  "UCX_GAUDI_COPY_DMABUF=n stages it through host memory instead");
}

void UcxCards::warn_of_tensor_handle(std::uint64_t address) {
    if (!is_first_tensor_handle(address))
        return;
    GAUDI_UCX_LOG(m_host, WARN,
                  "0x%llx is no memory of this process: it is probably data_ptr() of a PyTorch tensor on a card, which "
                  "is a handle; habana_frameworks.torch.utils.experimental._data_ptr(tensor) returns the address",
                  static_cast<unsigned long long>(address));
    m_host.call().ucs_log_flush(); // UCX may crash next
}

/// Once; a warning for a user who has demanded zero copy.
void UcxCards::report_staged(const char *why) {
    if (m_reported_staged.exchange(true))
        return;
    if (m_dmabuf.load(std::memory_order_relaxed) == UCS_YES)
        GAUDI_UCX_LOG(m_host, WARN, "RDMA devices reach Gaudi memory through host memory only: %s", why);
    else
        GAUDI_UCX_LOG(m_host, DIAG, "RDMA devices reach Gaudi memory through host memory only: %s", why);
}

/// A thread that opens a domain at the same time waits: without it, its memory would be host memory for a moment.
void UcxCards::start_listening(Cards &cards) {
    std::call_once(m_listening, [&] {
        // The cache takes no entry before it exists, and UCX creates it at the first lookup.
        if (m_host.call().ucs_memtype_cache_global_create) {
            m_host.call().ucs_memtype_cache_global_create();
        } else {
            ucs_memory_info info{};
            m_host.call().ucs_memtype_cache_lookup(this, 1, &info);
        }
        mark_unknown_in_memtype_cache(cards.address_range());
        for (const Range range : tensor_handle_ranges()) // for the warning before UCX reads from a handle
            mark_unknown_in_memtype_cache(range);
        LiveMappings::get().add_listener(cards, *this);
        add_counter_files(m_counter_files.emplace(CounterFiles{m_host, cards}));
        watch_host_memory();
    });
}

/// Mappings of unregistered host memory are kept only where UCX's events show which memory is unmapped.
void UcxCards::watch_host_memory() {
    constexpr int kPriority = 1000; // positive: the handler of mremap is called after it
    const auto forget = [](ucm_event_type_t, ucm_event *event, void *) {
        HostCache::forget(reinterpret_cast<std::uint64_t>(event->vm_unmapped.address), event->vm_unmapped.size);
    };
    // MREMAP_FIXED replaces what is at the new address, for which UCX has no event of its own.
    const auto forget_target = [](ucm_event_type_t, ucm_event *event, void *) {
        if (event->mremap.result != MAP_FAILED)
            HostCache::forget(reinterpret_cast<std::uint64_t>(event->mremap.result), event->mremap.new_size);
    };
    const auto listen = [&](ucm_event_type_t type, ucm_event_callback_t handler) {
        return m_host.call().ucm_set_event_handler(static_cast<int>(type), kPriority, handler, nullptr) == UCS_OK;
    };
    if (listen(UCM_EVENT_VM_UNMAPPED, forget) && listen(UCM_EVENT_MREMAP, forget_target))
        HostCache::get().enable();
}

/// UCX takes an address without an entry in its cache for host memory, and queries one that is there as unknown. Entered
/// before a card is open, because a framework may open one unseen. No processor has these addresses, so no other memory is
/// queried; but a cache that is not empty costs host messages a lookup.
void UcxCards::mark_unknown_in_memtype_cache(Range range) {
    if (range.length != 0)
        m_host.call().ucs_memtype_cache_update(reinterpret_cast<const void *>(range.base), range.length,
                                               UCS_MEMORY_TYPE_UNKNOWN, UCS_SYS_DEVICE_ID_UNKNOWN, 0);
}

void UcxCards::notify(ucm_event_type_t type, const Region &region) {
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

/// Not the event for freed device memory, which would also make the range host memory to the memory-type cache for a
/// moment. No processor has these addresses, so for other handlers of the event no memory was unmapped.
void UcxCards::drop_cached_registrations(Range range) {
    ucm_event event{};
    event.vm_unmapped.address = reinterpret_cast<void *>(range.base);
    event.vm_unmapped.size = range.length;
    m_host.call().ucm_event_enter();
    m_host.call().ucm_event_dispatch(UCM_EVENT_VM_UNMAPPED, &event);
    m_host.call().ucm_event_leave();
}

void UcxCards::mapped(const Region &region) {
    if (!region.exportable() && m_dmabuf.load(std::memory_order_relaxed) != UCS_NO)
        report_staged(region.why_no_export().c_str());
    notify(UCM_EVENT_MEM_TYPE_ALLOC, region);
}

void UcxCards::unmapping(const Region &region) {
    notify(UCM_EVENT_MEM_TYPE_FREE, region); // registrations go before the memory does
    mark_unknown_in_memtype_cache({region.base(), region.size()});
}

bool UcxCards::hand_over_refused(const Error &why) {
    GAUDI_UCX_LOG(m_host, ERROR, "%s", why.text.c_str());
    return true;
}

void UcxCards::card_closed(const Card &card) {
    GAUDI_UCX_LOG(m_host, INFO, "card %u (%s) was closed by the program that had opened it: Gaudi memory on it is gone",
                  card.number(), card.bus_id().c_str());
}

void UcxCards::card_lost(const Card &card) {
    GAUDI_UCX_LOG(m_host, WARN,
                  "card %u (%s) was reset by its driver or is gone: it was closed, Gaudi memory on it is lost, and "
                  "copies under way have failed",
                  card.number(), card.bus_id().c_str());
}

void UcxCards::session_began(Session &session) {
    if (const std::string why = why_not_published(); !why.empty())
        GAUDI_UCX_LOG(m_host, DEBUG, "ucx_gaudi top will not show this process: %s", why.c_str());
    if (const auto watched = m_events.watch(session); !watched)
        GAUDI_UCX_LOG(
            m_host, DIAG,
            "card %u (%s): a reset will be seen at the next allocation only, and the driver kills a process that "
            "keeps the card open in one: %s",
            session.card().number(), session.card().bus_id().c_str(), watched.error().text.c_str());
}

} // namespace gaudi::uct
