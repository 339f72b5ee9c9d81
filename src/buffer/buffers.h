// SPDX-License-Identifier: BSD-3-Clause
// The buffers of this process, and movers for their copies.
#pragma once

#include "gaudi/card/forks.h"
#include "gaudi/copy/mover.h"
#include "os/mutex.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gaudi::buffer {

class Buffers {
public:
    /// Errors are those of Cards::get().
    static Result<Buffers *> get();

    /// `device` as users name a card, or "auto".
    Result<std::uint64_t> allocate(const std::string &device, std::uint64_t length);
    Result<void> free(std::uint64_t address);
    Result<void> write(std::uint64_t address, std::uint64_t host, std::uint64_t length);
    Result<void> read(std::uint64_t host, std::uint64_t address, std::uint64_t length);
    Result<void> fill(std::uint64_t address, unsigned char byte, std::uint64_t length);
    Result<std::string> bus_id(std::uint64_t address);
    /// Of the card that holds `address`; 0: of all that this process has open.
    Result<void> flush_rdma_writes(std::uint64_t address);

    Buffers *const m_inherited; // of the parent; nobody reads it, but leak checkers find it

private:
    struct Buffer {
        std::uint64_t length = 0;
        Resolved memory;
        const Session *session = nullptr; // of the memory
        unsigned copies = 0;              // under way
    };
    using Table = std::map<std::uint64_t, Buffer>; // by address
    class Use;

    Buffers(Cards &cards, Buffers *inherited) : m_inherited(inherited), m_cards(cards) {}

    Result<void> check_host(std::uint64_t host) const;
    Table::iterator find(std::uint64_t address) GAUDI_REQUIRES(m_mutex);
    /// Why `address` is in no buffer.
    Error explain(std::uint64_t address) const;
    std::unique_ptr<Mover> take_mover();
    void give_back(std::unique_ptr<Mover> mover);

    Cards &m_cards;
    const unsigned m_fork = fork_count();
    os::Mutex m_mutex{rank::kBuffers};
    Table m_table GAUDI_GUARDED_BY(m_mutex);
    std::vector<std::unique_ptr<Mover>> m_movers GAUDI_GUARDED_BY(m_mutex); // idle; a mover serves one thread
};

} // namespace gaudi::buffer
