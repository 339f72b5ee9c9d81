// SPDX-License-Identifier: BSD-3-Clause
// Gaudi memory of one process that another one writes to by RDMA, and three ways to look at it.
#pragma once

#include "conversation.h"
#include "uct/uct_side.h"

namespace e2e {

using uct_side::Buffer;
using uct_side::Bytes;

/// A range of somebody's memory that UCX registered: for the other side, its key and address.
class Mapped {
public:
    Mapped(Side &side, void *address, std::size_t length);
    ~Mapped();
    Mapped(const Mapped &) = delete;
    Mapped &operator=(const Mapped &) = delete;

    std::vector<char> key() const;

private:
    Side &m_side;
    ucp_mem_h m_memh = nullptr;
};

/// The domain and the transport beside UCP's own: they allocate what UCP has not mapped, and read with the card's engines.
class Cards {
public:
    const uct_side::Domain &domain() const { return m_domain; }
    void write(const Buffer &buffer, const Bytes &bytes) { m_transport.write(buffer, bytes); }
    /// By the card's own engines.
    Bytes read(const Buffer &buffer, std::size_t length) { return m_transport.read(buffer, length); }
    /// Through the dma-buf, which only the software card allows.
    Bytes look(const Buffer &buffer, std::size_t length) const;

private:
    uct_side::Domain m_domain;
    uct_side::Transport m_transport{m_domain};
};

/// The owner tells the writer what to put where; a request without bytes ends it.
struct Order {
    std::vector<char> key;
    std::uint64_t address = 0;
    std::vector<char> bytes;
};
/// The owner's side of an order; the bytes are there when it returns.
void have_written(Side &side, const Order &order);
/// The writer's: obeys until the end.
void obey(Side &side);
void dismiss(Side &side);

} // namespace e2e
