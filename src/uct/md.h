// SPDX-License-Identifier: BSD-3-Clause
// The memory domain gaudi_copy: allocates, recognises, registers and exports Gaudi memory, on all cards.
#pragma once

#include "gaudi/memory/lost_memory.h"
#include "memory_handle.h"
#include "ucx/edge.h"
#include "ucx_cards.h"

#include <string>

namespace gaudi::uct {

class Md : public ucx::uct_md {
public:
    /// `framework`: the user says that a framework will open its card later.
    static Result<Md *> open(ucx::uct_component &component, UcxCards &ucx_cards, Cards &cards, const MdConfig &config,
                             bool framework);

    // ---- for UCX, through the edge
    void close() { delete this; }
    ucx::ucs_status_t query(ucx::uct_md_attr_v2 *attr);
    ucx::ucs_status_t mem_alloc(std::size_t *length, void **address, ucx::ucs_memory_type_t mem_type,
                                ucx::ucs_sys_device_t sys_dev, unsigned flags, const char *alloc_name,
                                ucx::uct_mem_h *memh);
    Result<void> mem_free(ucx::uct_mem_h memh);
    Result<void> mem_reg(void *address, std::size_t length, const ucx::uct_md_mem_reg_params *params,
                         ucx::uct_mem_h *memh);
    Result<void> mem_dereg(const ucx::uct_md_mem_dereg_params *params);
    /// What may block: see resolve(); a query for a dma-buf exports the mapping.
    ucx::ucs_status_t mem_query(const void *address, std::size_t length, ucx::uct_md_mem_attr_v2 *attr);
    Result<void> mkey_pack(ucx::uct_mem_h memh, void *address, std::size_t length,
                           const ucx::uct_md_mkey_pack_params *params, void *buffer);
    Result<void> mem_attach(const void *buffer, ucx::uct_md_mem_attach_params *params, ucx::uct_mem_h *memh);
    ucx::ucs_status_t detect_memory_type(const void *address, std::size_t length, ucx::ucs_memory_type_t *mem_type);
    Result<void> query_devices(ucx::uct_tl_device_resource **devices, unsigned *count);
    Result<void> iface_open(ucx::uct_worker_h worker, const ucx::uct_iface_params *params,
                            const ucx::uct_iface_config *config, ucx::uct_iface_h *iface);
    void failed(const Error &error) const noexcept;

private:
    Md(ucx::uct_component &owner, UcxCards &ucx_cards, Cards &cards, const MdConfig &config, bool framework);
    ~Md() = default;

    std::uint64_t limit() const; // of each card
    Result<void> try_alloc(std::size_t *length, void **address, ucx::ucs_memory_type_t mem_type,
                           ucx::ucs_sys_device_t sys_dev, unsigned flags, ucx::uct_mem_h *memh);
    ucx::ucs_status_t describe_lost(const LostMemory::Found &lost, ucx::uct_md_mem_attr_v2 *attr) const;
    ucx::ucs_status_t describe(const Resolved &memory, std::uint64_t address, std::size_t length,
                               ucx::uct_md_mem_attr_v2 *attr);
    Result<Card *> choose(ucx::ucs_sys_device_t sys_dev);

    static ucx::uct_md_ops s_ops;

    UcxCards &m_ucx_cards;
    Cards &m_cards;
    const std::string m_device; // set by the user, or "auto"
    const std::size_t m_max_memory;
    const bool m_dmabuf;
    // Decided once: UCX plans with what a domain offered when it was opened, and never asks again.
    const bool m_offers_copies;
};

} // namespace gaudi::uct
