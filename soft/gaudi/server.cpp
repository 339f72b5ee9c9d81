// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include "functions.h"

#include <fmt/format.h>
#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace softgaudi {
namespace {

struct Instance {
    std::mutex mutex;
    std::atomic<Server *> server{nullptr};
    bool refused = false;
};

Instance &instance() {
    static auto *only = new Instance; // no destructor may run before the last caller
    return *only;
}

/// A child of fork has the descriptors but none of the threads: it starts with a server of its own.
void after_fork() {
    auto *fresh = new (&instance()) Instance;
    (void)fresh;
}

void say(std::string_view sentence) {
    std::fprintf(stderr, "softgaudi: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

} // namespace

Server *Server::get() {
    Instance &only = instance();
    if (Server *known = only.server.load(std::memory_order_acquire))
        return known;
    const std::lock_guard guard(only.mutex);
    if (Server *known = only.server.load(std::memory_order_acquire); known || only.refused)
        return known;
    static std::once_flag hooked;
    std::call_once(hooked, [] { pthread_atfork(nullptr, nullptr, after_fork); });
    auto config = read_config();
    if (!config) {
        say(config.error());
        only.refused = true;
        return nullptr;
    }
    std::unique_ptr<Server> server(new Server(std::move(*config)));
    if (!server->set_up()) {
        only.refused = true;
        return nullptr;
    }
    only.server.store(server.get(), std::memory_order_release);
    return server.release();
}

Server::Server(Config config) : m_config(std::move(config)), m_fault_counts(m_config.faults.size()) {}

bool Server::set_up() {
    ClockState *clock_state = nullptr;
    if (m_config.pace.mode == Pace::Mode::virtual_clock) {
        clock_state = static_cast<ClockState *>(map_shared(m_config.dir + "/clock", sizeof(ClockState), [](void *p) {
            auto *fresh = static_cast<ClockState *>(p);
            fresh->mutex.init();
            fresh->now.store(ClockState::kBegin);
            fresh->magic.store(ClockState::kMagic);
        }));
        if (!clock_state) {
            say(fmt::format("cannot map {}/clock: {}", m_config.dir, std::strerror(errno)));
            return false;
        }
    }
    m_clock = std::make_unique<Clock>(clock_state);
    for (unsigned i = 0; i < m_config.cards; ++i) {
        m_cards.push_back(std::make_unique<Card>(m_config, *m_clock, i));
        if (!m_cards.back()->ready()) {
            say(fmt::format("cannot set up card {} in {}: {}", i, m_config.dir, std::strerror(errno)));
            return false;
        }
    }
    return true;
}

Card *Server::by_bus_id(const char *bus_id) {
    // As the driver's library does: a short form lacks the domain, a long one is cut.
    const std::string_view given(bus_id, strnlen(bus_id, 12));
    const std::string name = given.size() == 7 ? fmt::format("0000:{}", given) : std::string(given);
    for (const auto &card : m_cards)
        if (softgaudi::bus_id(card->index()) == name)
            return card.get();
    return nullptr;
}

Card *Server::by_module_id(uint32_t module_id) {
    for (const auto &card : m_cards)
        if (softgaudi::module_id(card->index()) == module_id)
            return card.get();
    return nullptr;
}

Server::Node Server::find(int fd) {
    const auto id = file_id(fd);
    if (!id)
        return {};
    for (const auto &card : m_cards) {
        if (card->compute_id() == *id)
            return {card.get(), false};
        if (card->control_id() == *id)
            return {card.get(), true};
    }
    errno = ENOTTY;
    return {};
}

Server::Fault Server::fault(size_t function, const Card *card) {
    Fault fault;
    const auto index = card ? std::optional(card->index()) : std::nullopt;
    for (size_t i = 0; i < m_config.faults.size(); ++i) {
        const FaultRule &rule = m_config.faults[i];
        if (!m_fault_counts.strikes(i, rule, kFunctions[function], index))
            continue;
        switch (rule.action) {
        case FaultRule::Action::fail:
            fault.error = rule.error;
            break;
        case FaultRule::Action::delay:
            fault.delay_us = rule.delay_us;
            break;
        case FaultRule::Action::hang:
            fault.hang = true;
            break;
        case FaultRule::Action::reset:
            fault.reset = true;
            break;
        case FaultRule::Action::lose:
            fault.lose = true;
            break;
        }
    }
    return fault;
}

void Server::count(size_t function, Card *card) {
    if (!card && !m_cards.empty())
        card = m_cards.front().get();
    if (card)
        card->state().calls[function].fetch_add(1, std::memory_order_relaxed);
}

} // namespace softgaudi
