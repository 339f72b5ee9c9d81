// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "card_versions.h"
#include "node_proof.h"
#include "range.h"
#include "result.h"
#include "thunk/library.h"

#include <cstdint>
#include <string>

namespace gaudi {

/// What a card is, whether it is open or not.
class CardIdentity {
public:
    /// `slot` is the position in Cards, `number` the name that users give the card.
    CardIdentity(const thunk::Library &library, unsigned slot, std::uint32_t number, std::string bus_id,
                 const hlthunk_hw_ip_info &info, NodeProof node);

    /// The position in Cards, for tables with an entry per card; never shown to users.
    unsigned slot() const { return m_slot; }
    /// The card's number in settings and messages: its module id, or its index where GAUDI_MAPPING_TABLE gives it one.
    std::uint32_t number() const { return m_number; }
    const std::string &bus_id() const { return m_bus_id; }
    std::uint32_t module_id() const { return m_info.module_id; }
    const hlthunk_hw_ip_info &info() const { return m_info; }
    /// Read at each call, because few processes need them.
    CardVersions versions() const { return read_card_versions(m_library, m_node.control(), m_bus_id, m_info); }
    const thunk::Library &library() const { return m_library; }
    /// By which a descriptor of the card is recognised.
    const NodeProof &node() const { return m_node; }
    std::uint64_t page_size() const { return m_info.device_mem_alloc_default_page_size; }
    /// The unit of driver blocks. Small pages are taken many at a time: each block costs a descriptor when it is exported.
    std::uint64_t block_size() const;
    /// Whether this generation executes packets of command submissions.
    bool takes_submissions() const { return m_info.device_id == HL_PCI_ID_GAUDI2; }
    /// The addresses that its memory can have. No processor has one of them; empty where that does not hold.
    Range address_range() const;

    /// The card was opened before this process was forked off.
    Error error_inherited() const;
    /// The framework has closed the card.
    Error error_closed() const;
    /// The driver has reset the card, or has lost it.
    Error error_lost() const;
    /// The card cannot be opened before that is over.
    Error error_in_reset() const;

private:
    const thunk::Library &m_library;
    const unsigned m_slot;
    const std::uint32_t m_number;
    const std::string m_bus_id;
    const hlthunk_hw_ip_info m_info;
    const NodeProof m_node;
};

} // namespace gaudi
