// SPDX-License-Identifier: BSD-3-Clause
// An RDMA connection of a NIC to itself. libibverbs is loaded at run time: most machines without a NIC have none.
#pragma once

#include "cli/sentence.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gaudi::cli::verify {

class RdmaLoopback {
public:
    /// `name`: of the RDMA device; empty for the first with an active port.
    static OrSentence<std::unique_ptr<RdmaLoopback>> open(const std::string &name);
    ~RdmaLoopback();
    RdmaLoopback(const RdmaLoopback &) = delete;
    RdmaLoopback &operator=(const RdmaLoopback &) = delete;

    const std::string &name() const { return m_name; }

    /// The errno of a registration of the descriptor -1; 0 if it succeeds, ENOSYS without such a function.
    int probe_dmabuf() const;
    OrSentence<void> register_host(void *memory, std::size_t length);
    /// A dma-buf in the place of the host memory.
    OrSentence<void> register_local_dmabuf(int dmabuf, std::size_t length);
    /// In place of the one before.
    OrSentence<void> register_dmabuf(int dmabuf, std::size_t length);

    /// Host memory to the dma-buf, or back, both from their starts. Ends when the NIC says so.
    OrSentence<void> write(std::uint32_t length);
    OrSentence<void> read(std::uint32_t length);

    /// Pieces that lie one behind the other; as many are under way at once as the connection takes.
    struct Pieces {
        bool write = true; // local to remote memory
        std::uint64_t local_offset = 0, remote_offset = 0;
        std::uint32_t size = 0;
        std::uint64_t count = 1;
    };
    /// Ends when the NIC says so of all of them.
    OrSentence<void> transfer(const Pieces &pieces);

private:
    struct Objects;
    RdmaLoopback();
    OrSentence<void> connect();
    OrSentence<void> post(const Pieces &pieces, std::uint64_t number);
    OrSentence<void> wait_for_one(bool write);

    std::string m_name;
    std::unique_ptr<Objects> m_objects;
};

} // namespace gaudi::cli::verify
