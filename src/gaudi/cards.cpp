// SPDX-License-Identifier: BSD-3-Clause
#include "cards.h"

#include "adoption.h"
#include "mapping_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iterator>

namespace gaudi {
namespace {

constexpr int kMinors = 256;

Error error(int code, std::string sentence) { return {code, "discover", std::move(sentence)}; }

struct Seen {
    std::string bus_id;
    hlthunk_hw_ip_info info;
};

std::vector<Seen> look(const thunk::Library &library) {
    std::vector<Seen> seen;
    for (int minor = 0; minor < kMinors; ++minor) {
        const auto control = thunk::DeviceFd::open_control(library, minor);
        if (!control)
            continue;
        auto bus_id = control->get().bus_id();
        const auto info = control->get().hw_ip();
        if (bus_id && info)
            seen.push_back({std::move(*bus_id), *info});
    }
    return seen;
}

/// Says which thread has the listeners, as long as it tells them. No thread_local: in a library that is loaded late those
/// are more than LeakSanitizer understands.
class Telling {
public:
    explicit Telling(std::atomic<std::thread::id> &teller) : m_teller(teller) { m_teller = std::this_thread::get_id(); }
    ~Telling() { m_teller = std::thread::id(); }
    Telling(const Telling &) = delete;
    Telling &operator=(const Telling &) = delete;

private:
    std::atomic<std::thread::id> &m_teller;
};

/// What to say where there was a card before the user's variable chose among them, and none after.
std::string none_chosen(const char *name, const std::string &value, const std::vector<Seen> &from) {
    std::vector<std::uint32_t> modules;
    for (const Seen &card : from)
        modules.push_back(card.info.module_id);
    return fmt::format("there is no Gaudi card: {}={} names none of module {}", name, value, fmt::join(modules, ", "));
}

std::string variable(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

} // namespace

Result<Cards *> Cards::get() {
    // Kept for the life of the process: UCX calls in from its last destructors.
    static std::mutex mutex;
    static Cards *only = nullptr;
    static Error *failure = nullptr;
    const std::lock_guard guard(mutex);
    if (only)
        return only;
    if (failure)
        return tl::unexpected(*failure);
    std::unique_ptr<Cards> cards(new Cards);
    if (auto done = cards->discover(); !done) {
        failure = new Error(done.error());
        return tl::unexpected(*failure);
    }
    only = cards.release();
    static Cards *const known = only;
    pthread_atfork(nullptr, nullptr, [] {
        for (const auto &card : known->m_cards)
            card->forked();
    });
    return only;
}

Result<void> Cards::discover() {
    auto library = thunk::Library::find();
    if (!library) {
        // Named but not there is a mistake; simply not installed is a machine without cards.
        if (std::getenv("GAUDI_THUNK"))
            return tl::unexpected(library.error());
        return {};
    }
    m_library = *library;
    std::vector<Seen> seen = look(*m_library);
    std::sort(seen.begin(), seen.end(),
              [](const Seen &a, const Seen &b) { return a.info.module_id < b.info.module_id; });

    if (const std::string table = variable("GAUDI_MAPPING_TABLE"); !table.empty()) {
        const auto entries = parse_mapping_table(table);
        if (!entries)
            return tl::unexpected(error(EINVAL, entries.error()));
        std::vector<Seen> chosen;
        for (const MappingEntry &entry : *entries) {
            const auto card =
                std::find_if(seen.begin(), seen.end(), [&](const Seen &known) { return known.bus_id == entry.bus_id; });
            if (card == seen.end())
                return tl::unexpected(error(ENODEV, fmt::format("GAUDI_MAPPING_TABLE: entry with index {}: there is no "
                                                                "card at {}",
                                                                entry.index, entry.bus_id)));
            if (card->info.module_id != entry.module_id)
                return tl::unexpected(
                    error(EINVAL, fmt::format("GAUDI_MAPPING_TABLE: entry with index {}: the card at {} is module {}, "
                                              "not {}",
                                              entry.index, entry.bus_id, card->info.module_id, entry.module_id)));
            chosen.push_back(*card);
        }
        if (chosen.empty() && !seen.empty())
            m_why_empty = none_chosen("GAUDI_MAPPING_TABLE", table, seen);
        seen = std::move(chosen);
    }
    if (const std::string visible = variable("HABANA_VISIBLE_MODULES"); !visible.empty() && visible != "all") {
        const auto modules = parse_visible_modules(visible);
        if (!modules)
            return tl::unexpected(error(EINVAL, modules.error()));
        std::vector<Seen> chosen;
        std::copy_if(seen.begin(), seen.end(), std::back_inserter(chosen), [&](const Seen &card) {
            return std::find(modules->begin(), modules->end(), card.info.module_id) != modules->end();
        });
        if (chosen.empty() && !seen.empty())
            m_why_empty = none_chosen("HABANA_VISIBLE_MODULES", visible, seen);
        seen = std::move(chosen);
    }
    for (Seen &card : seen)
        m_cards.push_back(
            std::make_unique<Card>(*this, static_cast<unsigned>(m_cards.size()), std::move(card.bus_id), card.info));
    if (!m_cards.empty())
        m_window = m_cards.front()->window();
    return {};
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
        return tl::unexpected(error(ENODEV, m_why_empty));
    if (failed == std::errc() && end == text.data() + text.size()) {
        for (const auto &card : m_cards)
            if ((module ? card->module_id() : card->index()) == number)
                return card.get();
    }
    return tl::unexpected(
        error(ENODEV, fmt::format("there is no card '{}' (a number from 0 to {}, module:N or a bus id)", name,
                                  m_cards.size() - 1)));
}

Result<Card *> Cards::usual() {
    if (m_cards.empty())
        return tl::unexpected(error(ENODEV, m_why_empty));
    for (const auto &card : m_cards)
        if (card->is_open() && !card->inherited())
            return card.get();
    for (const auto &card : m_cards)
        if (card->if_held())
            return card.get();
    if (const std::string module = variable("HLS_MODULE_ID"); !module.empty())
        return named("module:" + module);
    return open_any();
}

Result<Card *> Cards::open_any() {
    OpenWait::Turn turn(m_open_wait);
    while (true) {
        Error last;
        std::vector<const Card *> in_reset;
        for (const auto &card : m_cards) {
            auto device = card->try_open();
            if (device) {
                turn.succeeded();
                return card.get();
            }
            if (device.error().code == EAGAIN)
                in_reset.push_back(card.get());
            if (in_reset.empty() ||
                device.error().code == EAGAIN) // of several reasons, the reset is the one that passes
                last = device.error();
        }
        if (in_reset.empty())
            return tl::unexpected(last);
        const std::string what = in_reset.size() == 1 ? "card " + in_reset.front()->bus_id()
                                                      : fmt::format("one of {} cards", in_reset.size());
        if (!turn.pause(what))
            return tl::unexpected(last);
    }
}

bool Cards::taken(const Card &by, std::uint64_t begin, std::uint64_t length) const {
    bool found = false;
    m_addresses.for_each([&](std::uint64_t first, std::uint64_t end, const Region &region) {
        // What was found there by asking is gone, if the same driver gives the address away again.
        const bool gone = region.origin() == Region::Origin::asked && &region.card() == &by;
        found = found || (!gone && begin < end && first < begin + length);
    });
    return found;
}

template <class News>
void Cards::tell(const News &news) {
    const Telling telling(m_teller);
    for (MappingListener *listener : m_listeners)
        news(*listener);
}

void Cards::mapped(Region &region) {
    if (region.origin() == Region::Origin::asked) {
        m_addresses.insert(region.base(), region.size(), &region);
        return;
    }
    const std::lock_guard guard(m_listeners_mutex); // a listener that is added hears of it once
    m_addresses.insert(region.base(), region.size(), &region);
    tell([&](MappingListener &listener) { listener.mapped(region); });
}

void Cards::unmapping(Region &region) {
    const std::lock_guard guard(m_listeners_mutex);
    tell([&](MappingListener &listener) { listener.unmapping(region); }); // it may be registered, whoever found it
    m_addresses.remove(region.base(), &region);
}

void Cards::became_exportable(Region &region) {
    const std::lock_guard guard(m_listeners_mutex);
    tell([&](MappingListener &listener) { listener.mapped(region); });
}

void Cards::left(const Card &card) {
    const std::lock_guard guard(m_listeners_mutex);
    tell([&](MappingListener &listener) { listener.left(card); });
}

Result<Card *> Cards::of_descriptor(int fd) const {
    const auto bus_id = thunk::Device(*m_library, fd).bus_id();
    if (!bus_id && thunk::is_transient(bus_id.error().code))
        return tl::unexpected(bus_id.error());
    Card *card = bus_id ? by_bus_id(*bus_id) : nullptr;
    if (!card)
        return nullptr;
    return is_compute_node(*m_library, *bus_id, fd).map([&](bool its) { return its ? card : nullptr; });
}

void Cards::add_listener(MappingListener &listener) {
    const std::lock_guard guard(m_listeners_mutex);
    m_listeners.push_back(&listener);
    std::vector<const Region *> known; // while we have the listeners none of them ends
    m_addresses.for_each([&](std::uint64_t, std::uint64_t, const Region &region) {
        if (region.origin() != Region::Origin::asked)
            known.push_back(&region);
    });
    const Telling telling(m_teller);
    for (const Region *region : known)
        listener.mapped(*region);
}

void Cards::remove_listener(MappingListener &listener) {
    const std::lock_guard guard(m_listeners_mutex);
    std::erase(m_listeners, &listener);
}

} // namespace gaudi
