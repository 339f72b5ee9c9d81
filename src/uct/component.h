// SPDX-License-Identifier: BSD-3-Clause
// The component gaudi_copy of one UCX: its domain, its transport under two names, and what it tells that UCX about
// mappings of device memory. One per Host; the cards behind it are the process's.
#pragma once

#include "config.h"
#include "gaudi/cards.h"
#include "ucx/edge.h"
#include "ucx/host.h"

#include <optional>
#include <vector>

namespace gaudi::uct {

inline constexpr const char *kComponentName = "gaudi_copy";

class Component : public ucx::uct_component, public MappingListener {
public:
    /// Registers with the UCX behind `host`. Never undone: UCX cannot forget a component.
    static void add_to(ucx::Host &host);

    // ---- for UCX, through the edge
    Result<void> query_md_resources(ucx::uct_md_resource_desc **resources, unsigned *count);
    Result<void> md_open(const char *md_name, const ucx::uct_md_config *config, ucx::uct_md_h *md);
    Result<void> rkey_unpack(const void *buffer, const ucx::uct_rkey_unpack_params *params, ucx::uct_rkey_t *rkey,
                             void **handle);
    /// Defined although it does nothing: the field of this name in UCX's struct must not be taken for an operation.
    ucx::ucs_status_t rkey_ptr(ucx::uct_rkey_t, void *, std::uint64_t, void **) { return ucx::UCS_ERR_UNSUPPORTED; }
    ucx::ucs_status_t rkey_release(ucx::uct_rkey_t rkey, void *handle);
    ucx::ucs_status_t rkey_compare(ucx::uct_rkey_t rkey1, ucx::uct_rkey_t rkey2,
                                   const ucx::uct_rkey_compare_params *params, int *result);
    void failed(const Error &error) const noexcept;

    // ---- for the domain
    const ucx::Host &host() const { return m_host; }
    ucx::ucs_sys_device_t sys_device(const Card &card) const;
    Card *card_of(ucx::ucs_sys_device_t sys_device) const;
    std::uint8_t mem_flags(const Region &region) const;
    /// A domain was opened; exports are as the last one opened wants them.
    void begin_domain(ucx::ucs_ternary_auto_value_t dmabuf);
    /// UCX's registration cache forgets the range; what is in use there is deregistered by its last user.
    void drop_cached_registrations(Range range);
    /// A dma-buf was handed out: says once what helps against a NIC that refuses it.
    void advise_on_refusal();
    /// UCX's memory-type cache is told of blocks from now on.
    void start_listening(Cards &cards);

    // ---- from the cards
    void mapped(const Region &region) override;
    void unmapping(const Region &region) override;
    void left(const Card &card) override;

private:
    explicit Component(ucx::Host &host);
    Result<Cards *> cards();
    void watch_host_memory();
    void say_staged(const char *why);
    void have_asked(Range range);
    void tell(ucx::ucm_event_type_t type, const Region &region);

    ucx::Host &m_host;
    ConfigTables m_tables;
    ucx::uct_tl m_cpy{}, m_gdr{};
    Cards *m_cards = nullptr;
    std::vector<ucx::ucs_sys_device_t> m_sys_devices; // by card
    std::atomic<ucx::ucs_ternary_auto_value_t> m_dmabuf{ucx::UCS_TRY};
    std::atomic<bool> m_said_staged{false}, m_advised{false};
    std::mutex m_mutex;
    std::once_flag m_listening;
};

} // namespace gaudi::uct
