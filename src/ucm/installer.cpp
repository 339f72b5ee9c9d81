// SPDX-License-Identifier: BSD-3-Clause
#include "installer.h"

#include "gaudi/card/cards.h"
#include "hooks.h"
#include "thunk/current_exception.h"
#include "ucx/log.h"

#include <atomic>

namespace gaudi::ucm {

using namespace ucx;

namespace {

/// UCX's installers have no argument; the hooks are the process's, so the first UCX serves for all.
std::atomic<Host *> s_first{nullptr};
std::atomic<const void *> s_module{nullptr}; // of the first UCX; set before s_first

/// Never fails: UCX would go on without its registration caches.
ucs_status_t install(int events) {
    if ((static_cast<unsigned>(events) & (UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE)) == 0)
        return UCS_OK;
    const Host &host = *s_first.load(std::memory_order_acquire);
    try {
        if (const auto installed =
                install_hooks(host.call().ucm_reloc_modify, s_module.load(std::memory_order_relaxed));
            !installed)
            GAUDI_UCX_LOG(host, DIAG, "no Gaudi memory hooks, so foreign Gaudi memory is probed at each use: %s",
                          installed.error().text.c_str());
    } catch (...) {
        GAUDI_UCX_LOG(host, DIAG, "no Gaudi memory hooks, so foreign Gaudi memory is probed at each use: %s",
                      thunk::current_exception_error("install").text.c_str());
    }
    return UCS_OK;
}

/// Mappings from before the handler was set cannot be listed, but the addresses that they can have are known.
void notify_existing(ucm_event_handler *handler) {
    try {
        const auto cards = Cards::get();
        if (!cards || (*cards)->address_range().length == 0)
            return;
        ucm_event event{};
        event.mem_type.address = reinterpret_cast<void *>((*cards)->address_range().base);
        event.mem_type.size = (*cards)->address_range().length;
        event.mem_type.mem_type = UCS_MEMORY_TYPE_UNKNOWN; // UCX queries each address
        event.mem_type.sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
        handler->cb(UCM_EVENT_MEM_TYPE_ALLOC, &event, handler->arg);
    } catch (...) { // without memory for the discovery there are no cards
    }
}

} // namespace

ucs_status_t register_installer(Host &host, const void *module) {
    const void *no_module = nullptr;
    s_module.compare_exchange_strong(no_module, module, std::memory_order_relaxed);
    Host *none = nullptr;
    s_first.compare_exchange_strong(none, &host, std::memory_order_acq_rel);
    auto *installer = new ucm_event_installer{install, notify_existing, {}}; // the list keeps it
    list_add_tail(*host.call().ucm_event_installer_list, installer->list);
    return UCS_OK;
}

} // namespace gaudi::ucm
