// SPDX-License-Identifier: BSD-3-Clause
// The cards as one UCX knows them: their system devices, and the events by which it learns of mappings of device memory. One
// per Host; the cards are the process's.
#pragma once

#include "card_events.h"
#include "config.h"
#include "counter_files.h"
#include "gaudi/memory/live_mappings.h"
#include "ucx/host.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace gaudi::uct {

class UcxCards : public MappingListener {
public:
    explicit UcxCards(const ucx::Host &host) : m_host(host), m_events(host) {}

    const ucx::Host &host() const { return m_host; }
    /// Finds the cards and names them in this UCX's topology, at the first call; null where there is no libhl-thunk.
    Result<Cards *> find();
    /// The result of an earlier find(); null before it.
    Cards *found() const { return m_cards.load(std::memory_order_acquire); }

    ucx::ucs_sys_device_t sys_device(const Card &card) const;
    Card *card_of(ucx::ucs_sys_device_t sys_device) const;
    std::uint8_t mem_flags(const Region &region) const;

    /// A domain was opened; its setting for exports replaces that of the domains before it.
    void begin_domain(ucx::ucs_ternary_auto_value_t dmabuf);
    /// From now on UCX's memory-type cache is notified of mappings.
    void start_listening(Cards &cards);
    /// UCX's registration cache forgets the range; a registration in use there is ended by its last user.
    void drop_cached_registrations(Range range);
    /// A dma-buf was handed out: logs once what helps against a NIC that refuses it.
    void advise_on_refused_dmabuf();
    /// Logs, once per process, what an address probably is that has the shape of PyTorch's handles and is no memory.
    void warn_of_tensor_handle(std::uint64_t address);

    void mapped(const Region &region) override;
    void unmapping(const Region &region) override;
    void card_closed(const Card &card) override;
    void card_lost(const Card &card) override;
    void session_began(Session &session) override;
    void session_ending(Session &session) override { m_events.unwatch(session); }
    bool hand_over_refused(const Error &why) override;

private:
    void watch_host_memory();
    void report_staged(const char *why);
    /// UCX queries an address that its cache has as unknown, and takes one without an entry for host memory.
    void mark_unknown_in_memtype_cache(Range range);
    void notify(ucx::ucm_event_type_t type, const Region &region);

    const ucx::Host &m_host;
    CardEvents m_events;
    os::Mutex m_mutex{rank::kComponent};
    std::vector<ucx::ucs_sys_device_t> m_sys_devices; // by card; complete when m_cards is set
    std::atomic<Cards *> m_cards{nullptr};
    std::atomic<ucx::ucs_ternary_auto_value_t> m_dmabuf{ucx::UCS_TRY};
    std::atomic<bool> m_reported_staged{false}, m_advised{false};
    std::once_flag m_listening;
    std::optional<CounterFiles> m_counter_files; // once listening
};

} // namespace gaudi::uct
