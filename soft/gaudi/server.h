// SPDX-License-Identifier: BSD-3-Clause
// The server as this process sees it: its configuration and its cards. Made at the first call and never torn down,
// because programs call into the library from their last destructors.
#pragma once

#include "card.h"
#include "common/instance.h"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace softgaudi {

class Server {
public:
    /// Null when the environment is wrong, which has been said on stderr once.
    static Server *get();

    const Config &config() const { return m_config; }
    Clock &clock() { return *m_clock; }
    unsigned cards() const { return static_cast<unsigned>(m_cards.size()); }
    Card &card(unsigned index) { return *m_cards.at(index); }
    Card *by_bus_id(const char *bus_id);
    Card *by_module_id(uint32_t module_id);

    struct Node {
        Card *card = nullptr;
        bool control = false;
    };
    /// What `fd` is open on; no card when it is something else. -EBADF goes to errno when it is nothing.
    Node find(int fd);

    /// What SOFTGAUDI_FAULTS wants of this call.
    struct Fault {
        int error = 0;
        bool hang = false, skip = false, reset = false, lose = false;
        uint64_t delay_us = 0;
    };
    Fault fault(size_t function, const Card *card);

    /// Calls that name no card are counted on the first one's state.
    void count(size_t function, Card *card);

private:
    friend class soft::Instance<Server>;
    static std::unique_ptr<Server> make();
    explicit Server(Config config);
    bool set_up();
    /// Descriptors that were opened are good in the child too; our own a driver would not have.
    void forked() {
        for (const auto &card : m_cards)
            card->close_node_file();
    }

    Config m_config;
    soft::FaultCounts m_fault_counts;
    std::unique_ptr<Clock> m_clock;
    std::vector<std::unique_ptr<Card>> m_cards;
};

} // namespace softgaudi
