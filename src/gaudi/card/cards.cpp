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

/// Null where the variable is not set, or empty.
const char *variable(const char *name) {
    const char *value = std::getenv(name);
    return value && *value != '\0' ? value : nullptr;
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

Cards::Cards(Discovery discovery)
    : m_library(discovery.library), m_why_empty(std::move(discovery.why_empty)),
      m_hidden_by(std::move(discovery.hidden_by)), m_numbered_by_table(discovery.numbered_by_table) {
    for (DiscoveredCard &card : discovery.cards)
        m_cards.push_back(
            std::make_unique<Card>(CardIdentity(*m_library, static_cast<unsigned>(m_cards.size()), card.number,
                                                std::move(card.bus_id), card.info, std::move(card.node)),
                                   m_open_wait));
    if (!m_cards.empty())
        m_address_range = m_cards.front()->address_range();
    // Below are programs that are linked to fixed addresses, and handles of PyTorch; above are addresses of no processor.
    constexpr std::uint64_t kBegin = 1ull << 39, kEnd = 1ull << 57;
    if (m_cards.empty() || m_address_range.length != 0)
        m_usual_host_range = {kBegin, kEnd - kBegin};
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
            if ((module ? card->module_id() : card->number()) == number)
                return card.get();
    }
    return tl::unexpected(error_unknown(name));
}

Error Cards::error_unknown(const std::string &name) const {
    std::vector<std::uint32_t> all;
    for (const auto &card : m_cards)
        all.push_back(card->number());
    std::string numbers = os::format("{}", os::join(all, ", "));
    if (!m_hidden_by.empty())
        numbers = os::format("{}; {} hides the others", numbers, m_hidden_by);
    std::string sentence =
        m_numbered_by_table
            ? os::format("there is no card '{}': give an index of GAUDI_MAPPING_TABLE ({}), module:N or a bus id", name,
                         numbers)
            : os::format("there is no card '{}': give a module id ({}), module:N or a bus id", name, numbers);
    return {ENODEV, "discover", std::move(sentence)};
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
    if (const char *module = variable("HLS_MODULE_ID")) {
        auto card = named(os::format("module:{}", module)).map_error([&](const Error &error) {
            return Error{error.code, error.call, os::format("HLS_MODULE_ID={}: {}", module, error.text)};
        });
        if (!card || variable("HABANA_VISIBLE_MODULES"))
            return card;
        if (const auto session = (*card)->try_open(); session || session.error().code != EBUSY)
            return card;
    }
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
    for (const auto &card : m_cards) {
        const auto matches = is_compute_node(*card, fd);
        if (!matches)
            return tl::unexpected(matches.error());
        if (*matches)
            return card.get();
    }
    return nullptr;
}

} // namespace gaudi
