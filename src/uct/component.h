// SPDX-License-Identifier: BSD-3-Clause
// The component gaudi_copy of one UCX: its domain, its transport under two names, and remote keys.
#pragma once

#include "config.h"
#include "ucx/edge.h"
#include "ucx/host.h"
#include "ucx_cards.h"

namespace gaudi::uct {

class Component : public ucx::uct_component {
public:
    /// Registers with the UCX behind `host`. Never undone: UCX cannot forget a component.
    static void add_to(ucx::Host &host);

    // ---- for UCX, through the edge
    Result<void> query_md_resources(ucx::uct_md_resource_desc **resources, unsigned *count);
    Result<void> md_open(const char *md_name, const ucx::uct_md_config *config, ucx::uct_md_h *md);
    Result<void> rkey_unpack(const void *buffer, const ucx::uct_rkey_unpack_params *params, ucx::uct_rkey_t *rkey,
                             void **handle);
    /// Defined although it is unsupported: the field of this name in UCX's struct must not be taken for an operation.
    ucx::ucs_status_t rkey_ptr(ucx::uct_rkey_t, void *, std::uint64_t, void **) { return ucx::UCS_ERR_UNSUPPORTED; }
    ucx::ucs_status_t rkey_release(ucx::uct_rkey_t rkey, void *handle);
    ucx::ucs_status_t rkey_compare(ucx::uct_rkey_t rkey1, ucx::uct_rkey_t rkey2,
                                   const ucx::uct_rkey_compare_params *params, int *result);
    void failed(const Error &error) const noexcept;

private:
    explicit Component(const ucx::Host &host);

    UcxCards m_cards;
    ConfigTables m_tables;
    ucx::uct_tl m_cpy{}, m_gdr{};
};

} // namespace gaudi::uct
