// SPDX-License-Identifier: BSD-3-Clause
// The cards of this machine, as this process may use them. One instance per process, however many UCX are loaded, so that
// each card has one owner.
#pragma once

#include "card.h"
#include "discovery.h"
#include "open_wait.h"

#include <memory>
#include <string>
#include <vector>

namespace gaudi {

class Cards {
public:
    /// Finds the cards at the first call; opens none. Errors are those of discover_cards().
    static Result<Cards *> get();

    /// Whether this machine has a libhl-thunk: without it no peer has Gaudi memory either.
    bool has_library() const { return m_library != nullptr; }
    const thunk::Library &library() const { return *m_library; }
    const std::vector<std::unique_ptr<Card>> &all() const { return m_cards; }
    bool empty() const { return m_cards.empty(); }
    /// Why it is empty: that there is no card, or which variable of the user left none.
    const std::string &why_empty() const { return m_why_empty; }
    Card *by_bus_id(const std::string &bus_id) const;

    /// A card named as users do: its number (a module id, or the index that GAUDI_MAPPING_TABLE gives it), "module:3" or a
    /// bus id. A card that HABANA_VISIBLE_MODULES leaves out is none.
    Result<Card *> named(const std::string &name) const;
    /// The card for an allocation that names none, as PyTorch chooses: a card that this process holds, else HLS_MODULE_ID's,
    /// else the first that opens; where HABANA_VISIBLE_MODULES is set, HLS_MODULE_ID's is not replaced by another when it
    /// is in use. Cards in reset are waited for together, and only where no other opens.
    Result<Card *> choose_default();
    /// The card whose compute node `fd` is; null for another file, and an error where the answer cannot be found now.
    Result<Card *> of_descriptor(int fd) const;

    /// The addresses that device memory can have; all cards have the same.
    Range address_range() const { return m_address_range; }
    bool is_card_address(std::uint64_t address) const { return m_address_range.contains(address); }
    /// Whether host memory usually is at `address` and device memory never is: the answer for most queries of UCX.
    bool is_usual_host_address(std::uint64_t address) const { return m_usual_host_range.contains(address); }

    void set_listener(CardListener *listener);

private:
    explicit Cards(Discovery discovery);
    Result<Card *> open_any();
    Error error_unknown(const std::string &name) const;

    const thunk::Library *const m_library;
    // As in Discovery.
    const std::string m_why_empty, m_hidden_by;
    const bool m_numbered_by_table;
    OpenWait m_open_wait;
    std::vector<std::unique_ptr<Card>> m_cards;
    Range m_address_range, m_usual_host_range;
};

} // namespace gaudi
