// SPDX-License-Identifier: BSD-3-Clause
// The live mappings of device memory in this process, and the listeners that are notified as they come and go.
#pragma once

#include "address_map.h"
#include "gaudi/card/cards.h"
#include "region.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace gaudi {

/// Notified of mappings from the thread that makes them. A callback may resolve addresses, but then no driver is probed.
class MappingListener {
public:
    virtual ~MappingListener() = default;
    virtual void mapped(const Region &region) = 0;    // and again when it becomes exportable
    virtual void unmapping(const Region &region) = 0; // it is still mapped
    virtual void card_closed(const Card &) {}         // by the framework; after the mappings on it
    virtual void card_lost(const Card &) {}           // in a reset; after the mappings on it
    /// An own session has begun; also for those that a new listener finds. The same one may be notified of twice.
    virtual void session_began(Session &) {}
    virtual void session_ending(Session &) {}
    /// A framework opens a card that this library has to keep; whether the listener has logged why.
    virtual bool hand_over_refused(const Error &) { return false; }
};

class LiveMappings : public CardListener {
public:
    static LiveMappings &get();

    /// The region that holds `address`, of those that are known; null for none. No lock.
    Region *find(std::uint64_t address) const { return m_addresses.find(address); }
    std::uint32_t size() const { return m_addresses.size(); }
    /// Whether a part of `range`, which the session's driver has just mapped, belongs to another known mapping.
    bool overlaps(const Session &session, Range range) const;

    /// Listeners are not notified of probed mappings: those may change unseen, and UCX is to query them each time.
    void publish(Region &region);
    void withdraw(Region &region);
    /// Listeners are notified once more, because the mapping can be registered now.
    void republish(Region &region);

    /// A new listener is notified of the mappings that exist, and of cards that are closed.
    void add_listener(Cards &cards, MappingListener &listener);
    void remove_listener(MappingListener &listener);
    /// Whether this thread is notifying listeners. It may hold locks that probing a driver would take.
    bool is_notifying() const { return m_notifier.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

    void session_began(Session &session) override;
    void session_ending(Session &session) override;
    void card_closed(const Card &card) override;
    void card_lost(const Card &card) override;
    /// Whether a listener has logged the reason.
    bool hand_over_refused(const Error &why);

private:
    LiveMappings() = default;
    template <class Event>
    void notify(const Event &event) GAUDI_REQUIRES(m_listeners_mutex);

    AddressMap m_addresses;
    // UCX queries memory with locks held that its listeners take: a query never waits for this lock.
    os::Mutex m_listeners_mutex{rank::kListeners};
    std::vector<MappingListener *> m_listeners GAUDI_GUARDED_BY(m_listeners_mutex);
    // No thread_local: LeakSanitizer loses sight of those in a library that is loaded late.
    std::atomic<std::thread::id> m_notifier{};
};

} // namespace gaudi
