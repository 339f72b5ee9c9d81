// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include "common/directory.h"
#include "common/kernel.h"
#include "functions.h"
#include "os/format.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace softgaudi {
namespace {

void report(std::string_view sentence) {
    std::fprintf(stderr, "softgaudi: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

} // namespace

Server *Server::get() { return soft::Instance<Server>::get(); }

std::unique_ptr<Server> Server::make() {
    auto config = read_config();
    if (!config) {
        report(config.error());
        return nullptr;
    }
    const auto able = soft::check_room(config->dir, "SOFTGAUDI_DIR").and_then([] {
        return soft::try_memory_calls("no card can access the memory of a program");
    });
    if (!able) {
        report(able.error());
        return nullptr;
    }
    if (const auto calls = soft::try_descriptor_calls("a card's events do not reach another process that shares it");
        !calls)
        report(calls.error());
    std::unique_ptr<Server> server(new Server(std::move(*config)));
    return server->set_up() ? std::move(server) : nullptr;
}

Server::Server(Config config) : m_config(std::move(config)), m_fault_counts(m_config.faults.size()) {}

bool Server::set_up() {
    ClockState *clock_state = nullptr;
    if (m_config.pace.mode == Pace::Mode::virtual_clock) {
        clock_state = map_clock(m_config.dir);
        if (!clock_state) {
            report(gaudi::os::format("cannot map {}/clock: {}", m_config.dir, soft::describe_setup_error(errno)));
            return false;
        }
    }
    m_clock = std::make_unique<Clock>(clock_state);
    for (unsigned i = 0; i < m_config.cards; ++i) {
        m_cards.push_back(std::make_unique<Card>(m_config, *m_clock, m_pins, i));
        if (!m_cards.back()->ready()) {
            report(gaudi::os::format("cannot set up card {} in {}: {}", m_cards.back()->module_id(), m_config.dir,
                                     soft::describe_setup_error(errno)));
            return false;
        }
    }
    return true;
}

Card *Server::find_by_bus_id(const char *bus_id) {
    // Like the driver's library: a short form lacks the domain, a long one is cut.
    const std::string_view given(bus_id, strnlen(bus_id, 12));
    const std::string name = given.size() == 7 ? gaudi::os::format("0000:{}", given) : std::string(given);
    for (const auto &card : m_cards)
        if (softgaudi::bus_id(card->index()) == name)
            return card.get();
    return nullptr;
}

Card *Server::find_by_module_id(uint32_t module_id) {
    for (const auto &card : m_cards)
        if (card->module_id() == module_id)
            return card.get();
    return nullptr;
}

Server::Node Server::find_node(int fd) {
    const auto id = file_id(fd);
    if (!id)
        return {};
    for (const auto &card : m_cards) {
        if (fd == card->node_file()) // the model's own descriptor, which no driver has
            break;
        if (card->compute_id() == *id)
            return {card.get(), false};
        if (card->control_id() == *id)
            return {card.get(), true};
    }
    errno = ENOTTY;
    return {};
}

Server::Fault Server::match_faults(size_t function, const Card *card) {
    Fault fault;
    const auto number = card ? std::optional<unsigned>(card->module_id()) : std::nullopt;
    for (size_t i = 0; i < m_config.faults.size(); ++i) {
        const FaultRule &rule = m_config.faults[i];
        if (!m_fault_counts.count_call(i, rule, kFunctions[function], number))
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
            fault.timeout_ns = rule.timeout_ns;
            break;
        case FaultRule::Action::skip:
            fault.skip = true;
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

void Server::count_call(size_t function, Card *card) {
    if (!card && !m_cards.empty())
        card = m_cards.front().get();
    if (card)
        card->state().calls[function].fetch_add(1, std::memory_order_relaxed);
}

} // namespace softgaudi
