// SPDX-License-Identifier: BSD-3-Clause
// The cards of this machine, as this process may use them. One instance per process, however many UCX are loaded: each
// card has one owner.
#pragma once

#include "address_map.h"
#include "card.h"
#include "foreign.h"
#include "open_wait.h"
#include "thunk/library.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gaudi {

/// Told of mappings of device memory as they come and go, from the thread that makes them.
class MappingListener {
public:
    virtual ~MappingListener() = default;
    virtual void mapped(const Region &region) = 0;    // and again when it becomes exportable
    virtual void unmapping(const Region &region) = 0; // still mapped, but not for long
    virtual void left(const Card &) {}                // closed by who had opened it
};

class Cards {
public:
    /// Finds the cards through their control nodes, at the first call; opens none. No library or no card is no error:
    /// there are none, then. A bad GAUDI_MAPPING_TABLE or HABANA_VISIBLE_MODULES is.
    static Result<Cards *> get();

    /// Whether there is a libhl-thunk: without it this is no machine of the Gaudi world, with it cards may be elsewhere.
    bool has_library() const { return m_library != nullptr; }
    const thunk::Library &library() const { return *m_library; }
    const std::vector<std::unique_ptr<Card>> &all() const { return m_cards; }
    bool empty() const { return m_cards.empty(); }
    /// Where it is empty: that there is no card, and which variable of the user left none.
    const std::string &why_empty() const { return m_why_empty; }
    Card *by_bus_id(const std::string &bus_id) const;

    /// A card named as users do: an index, a module id ("module:3") or a bus id.
    Result<Card *> named(const std::string &name) const;
    /// Where memory goes when nobody says: a card this process holds, else HLS_MODULE_ID's, else the first that opens.
    /// Cards that are being reset are waited for together, and only where no other opens.
    Result<Card *> usual();

    AddressMap &addresses() { return m_addresses; }
    /// The mapping that holds `address`, of those that are known.
    Region *find(std::uint64_t address) const { return m_addresses.find(address); }
    /// The same, and for an address that only a card can have the drivers are asked.
    Region *look_up(std::uint64_t address) {
        Region *known = find(address);
        return known || !only_on_cards(address) ? known : m_foreign.ask(address);
    }
    /// Whether no processor has such an address, but cards have.
    bool only_on_cards(std::uint64_t address) const { return address - m_window.base < m_window.length; }
    /// All cards have the same.
    Range window() const { return m_window; }
    Foreign &foreign() { return m_foreign; }
    OpenWait &open_wait() { return m_open_wait; }
    /// The card whose compute node `fd` is; null for anything else, and an error where that cannot be found out now.
    Result<Card *> of_descriptor(int fd) const;

    /// Whether anything of [begin, begin + length), which the card has just mapped, belongs to a known mapping.
    bool taken(const Card &by, std::uint64_t begin, std::uint64_t length) const;
    /// Listeners are not told of what was found by asking: it may change behind our back, and UCX is to ask again.
    void mapped(Region &region);
    void unmapping(Region &region);
    /// Listeners hear of the mapping once more, because it can be registered now.
    void became_exportable(Region &region);
    void left(const Card &card);
    /// A new listener hears of what is mapped already.
    void add_listener(MappingListener &listener);
    void remove_listener(MappingListener &listener);
    /// Whether this thread is telling listeners. What they ask meanwhile is answered by what is known: to ask the drivers
    /// would wait for locks that this thread may have.
    bool telling() const { return m_teller.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

private:
    Cards() : m_foreign(*this) {}
    Result<void> discover();
    Result<Card *> open_any();
    template <class News>
    void tell(const News &news);

    const thunk::Library *m_library = nullptr;
    std::vector<std::unique_ptr<Card>> m_cards;
    std::string m_why_empty = "there is no Gaudi card";
    Range m_window;
    AddressMap m_addresses;
    Foreign m_foreign;
    OpenWait m_open_wait;
    // Held while listeners are told. UCX asks us with its locks held that listeners take: what it waits for in us must not
    // wait for this one.
    std::mutex m_listeners_mutex;
    std::atomic<std::thread::id> m_teller{};
    std::vector<MappingListener *> m_listeners;
};

} // namespace gaudi
