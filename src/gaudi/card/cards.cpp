// SPDX-License-Identifier: BSD-3-Clause
#include "cards.h"

#include "adoption.h"
#include "os/format.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace gaudi {
namespace {

tl::unexpected<Error> refuse(int code, std::string sentence) {
    return tl::unexpected(Error{code, "discover", std::move(sentence)});
}

constinit os::Mutex g_mutex{rank::kDiscovery}; // one thread discovers
// Kept to the end of the process: UCX calls in from its last destructors.
constinit std::atomic<Cards *> g_cards{nullptr};
constinit Error *g_failure GAUDI_GUARDED_BY(g_mutex) = nullptr;

} // namespace

Result<Cards *> Cards::get() {
    if (Cards *known = g_cards.load(std::memory_order_acquire)) // no lock: a listener may call this
        return known;
    const os::MutexLock lock(g_mutex);
    if (Cards *known = g_cards.load(std::memory_order_acquire))
        return known;
    if (g_failure)
        return tl::unexpected(*g_failure);
    auto discovery = discover_cards();
    if (!discovery) {
        g_failure = new Error(discovery.error());
        return tl::unexpected(*g_failure);
    }
    static Cards *const known = new Cards(std::move(*discovery));
    pthread_atfork(nullptr, nullptr, [] {
        for (const auto &card : known->m_cards)
            card->mark_inherited();
    });
    g_cards.store(known, std::memory_order_release);
    return known;
}

Cards::Cards(Discovery discovery) : m_library(discovery.library), m_why_empty(std::move(discovery.why_empty)) {
    for (DiscoveredCard &card : discovery.cards)
        m_cards.push_back(std::make_unique<Card>(
            CardIdentity(*m_library, static_cast<unsigned>(m_cards.size()), std::move(card.bus_id), card.info),
            m_open_wait));
    if (!m_cards.empty())
        m_address_range = m_cards.front()->address_range();
}

void Cards::set_listener(CardListener *listener) {
    for (const auto &card : m_cards)
        card->set_listener(listener);
}

Card *Cards::by_bus_id(const std::string &bus_id) const {
    for (const auto &card : m_cards)
        if (card->bus_id() == bus_id)
            return card.get();
    return nullptr;
}

Result<Card *> Cards::named(const std::string &name) const {
    if (Card *card = by_bus_id(name))
        return card;
    std::string_view text = name;
    const bool module = text.starts_with("module:");
    if (module)
        text.remove_prefix(7);
    unsigned number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (m_cards.empty())
        return refuse(ENODEV, m_why_empty);
    if (failed == std::errc() && end == text.data() + text.size()) {
        for (const auto &card : m_cards)
            if ((module ? card->module_id() : card->index()) == number)
                return card.get();
    }
    return refuse(ENODEV, os::format("there is no card '{}' (a number from 0 to {}, module:N or a bus id)", name,
                                     m_cards.size() - 1));
}

Result<Card *> Cards::choose_default() {
    if (m_cards.empty())
        return refuse(ENODEV, m_why_empty);
    for (const auto &card : m_cards)
        if (const Session *session = card->session(); session && session->usable())
            return card.get();
    for (const auto &card : m_cards)
        if (card->find_session())
            return card.get();
    if (const char *module = std::getenv("HLS_MODULE_ID"); module && *module != '\0')
        return named(os::format("module:{}", module)).map_error([&](const Error &error) {
            return Error{error.code, error.call, os::format("HLS_MODULE_ID={}: {}", module, error.text)};
        });
    return open_any();
}

Result<Card *> Cards::open_any() {
    OpenWait::Turn turn(m_open_wait);
    while (true) {
        Error last;
        std::vector<const Card *> in_reset;
        for (const auto &card : m_cards) {
            const auto session = card->try_open();
            if (session) {
                turn.succeeded();
                return card.get();
            }
            if (session.error().code == EAGAIN)
                in_reset.push_back(card.get());
            if (in_reset.empty() || session.error().code == EAGAIN) // of several reasons, the reset is transient
                last = session.error();
        }
        if (in_reset.empty())
            return tl::unexpected(last);
        const std::string what = in_reset.size() == 1 ? "card " + in_reset.front()->bus_id()
                                                      : os::format("one of {} cards", in_reset.size());
        if (!turn.pause(what))
            return tl::unexpected(last);
    }
}

Result<Card *> Cards::of_descriptor(int fd) const {
    const auto bus_id = thunk::Device(*m_library, fd).bus_id();
    if (!bus_id && thunk::is_transient(bus_id.error().code))
        return tl::unexpected(bus_id.error());
    Card *card = bus_id ? by_bus_id(*bus_id) : nullptr;
    if (!card)
        return nullptr;
    return is_compute_node(*m_library, *bus_id, fd).map([&](bool matches) { return matches ? card : nullptr; });
}

} // namespace gaudi
