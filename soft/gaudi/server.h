// SPDX-License-Identifier: BSD-3-Clause
// The server as this process sees it: configuration and cards. Created at the first call and never destroyed, because
// programs call into the library from their last destructors.
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
    /// Null when the environment is wrong, which is reported on stderr once.
    static Server *get();

    const Config &config() const { return m_config; }
    Clock &clock() { return *m_clock; }
    unsigned cards() const { return static_cast<unsigned>(m_cards.size()); }
    Card &card(unsigned index) { return *m_cards.at(index); }
    Card *find_by_bus_id(const char *bus_id);
    Card *find_by_module_id(uint32_t module_id);

    struct Node {
        Card *card = nullptr;
        bool control = false;
    };
    /// The card and node that `fd` is open on; no card, and errno, when it is not a card.
    Node find_node(int fd);

    /// The faults of SOFTGAUDI_FAULTS that apply to this call.
    struct Fault {
        int error = 0;
        bool hang = false, skip = false, reset = false, lose = false;
        uint64_t delay_us = 0;
        uint64_t timeout_ns = 0; // of a submission that hangs
    };
    Fault match_faults(size_t function, const Card *card);

    /// Counts a call; calls without a card are counted on the first one.
    void count_call(size_t function, Card *card);

private:
    friend class soft::Instance<Server>;
    static std::unique_ptr<Server> make();
    explicit Server(Config config);
    bool set_up();
    /// Open cards stay usable in the child of a fork; the model's own descriptors, which no driver has, are closed.
    void forked() {
        for (const auto &card : m_cards)
            card->close_node_file();
        m_pins.forked();
    }

    Config m_config;
    soft::FaultCounts m_fault_counts;
    std::unique_ptr<Clock> m_clock;
    PinnedMemory m_pins;
    std::vector<std::unique_ptr<Card>> m_cards;
};

} // namespace softgaudi
