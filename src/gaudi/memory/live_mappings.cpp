// SPDX-License-Identifier: BSD-3-Clause
#include "live_mappings.h"

namespace gaudi {
namespace {

/// Marks the thread that notifies, for as long as it does.
class Notifying {
public:
    explicit Notifying(std::atomic<std::thread::id> &notifier) : m_notifier(notifier) {
        m_notifier = std::this_thread::get_id();
    }
    ~Notifying() { m_notifier = std::thread::id(); }
    Notifying(const Notifying &) = delete;
    Notifying &operator=(const Notifying &) = delete;

private:
    std::atomic<std::thread::id> &m_notifier;
};

} // namespace

LiveMappings &LiveMappings::get() {
    static auto *only = new LiveMappings; // never freed: UCX calls in from its last destructors
    return *only;
}

bool LiveMappings::overlaps(const Session &session, Range range) const {
    bool found = false;
    m_addresses.for_each([&](std::uint64_t begin, std::uint64_t end, const Region &region) {
        // A probed mapping that the same driver gives away again is gone.
        const bool gone = region.origin() == Region::Origin::probed && &region.session() == &session;
        found = found || (!gone && range.base < end && begin < range.base + range.length);
    });
    return found;
}

template <class Event>
void LiveMappings::notify(const Event &event) {
    const Notifying notifying(m_notifier);
    for (MappingListener *listener : m_listeners)
        event(*listener);
}

void LiveMappings::publish(Region &region) {
    if (region.origin() == Region::Origin::probed) {
        m_addresses.insert(region.base(), region.size(), &region);
        return;
    }
    const os::MutexLock lock(m_listeners_mutex); // a listener that is added meanwhile is notified once
    m_addresses.insert(region.base(), region.size(), &region);
    notify([&](MappingListener &listener) { listener.mapped(region); });
}

void LiveMappings::withdraw(Region &region) {
    const os::MutexLock lock(m_listeners_mutex);
    notify([&](MappingListener &listener) { listener.unmapping(region); }); // a probed mapping may be registered too
    m_addresses.remove(region.base(), &region);
}

void LiveMappings::republish(Region &region) {
    const os::MutexLock lock(m_listeners_mutex);
    notify([&](MappingListener &listener) { listener.mapped(region); });
}

void LiveMappings::card_closed(const Card &card) {
    const os::MutexLock lock(m_listeners_mutex);
    notify([&](MappingListener &listener) { listener.card_closed(card); });
}

void LiveMappings::card_lost(const Card &card) {
    const os::MutexLock lock(m_listeners_mutex);
    notify([&](MappingListener &listener) { listener.card_lost(card); });
}

void LiveMappings::session_began(Session &session) {
    const os::MutexLock lock(m_listeners_mutex);
    if (session.usable()) // else session_ending() was here already
        notify([&](MappingListener &listener) { listener.session_began(session); });
}

void LiveMappings::session_ending(Session &session) {
    const os::MutexLock lock(m_listeners_mutex);
    notify([&](MappingListener &listener) { listener.session_ending(session); });
}

bool LiveMappings::hand_over_refused(const Error &why) {
    bool logged = false;
    const os::MutexLock lock(m_listeners_mutex);
    notify([&](MappingListener &listener) { logged = listener.hand_over_refused(why) || logged; });
    return logged;
}

void LiveMappings::add_listener(Cards &cards, MappingListener &listener) {
    cards.set_listener(this);
    const os::MutexLock lock(m_listeners_mutex);
    m_listeners.push_back(&listener);
    std::vector<const Region *> known; // none of them ends while the lock is held
    m_addresses.for_each([&](std::uint64_t, std::uint64_t, const Region &region) {
        if (region.origin() != Region::Origin::probed)
            known.push_back(&region);
    });
    const Notifying notifying(m_notifier);
    for (const Region *region : known)
        listener.mapped(*region);
    for (const auto &card : cards.all())
        if (Session *session = card->session(); session && session->usable() && !session->adopted())
            listener.session_began(*session);
}

void LiveMappings::remove_listener(MappingListener &listener) {
    const os::MutexLock lock(m_listeners_mutex);
    std::erase(m_listeners, &listener);
}

} // namespace gaudi
