// SPDX-License-Identifier: BSD-3-Clause
// Gaudi memory of one process that another one writes to by RDMA, and ways to read it back.
#pragma once

#include "conversation.h"
#include "uct/uct_side.h"

namespace e2e {

using uct_side::Buffer;
using uct_side::Bytes;

/// A range that UCX has registered, with the key for the other side.
class MappedRange {
public:
    MappedRange(Side &side, void *address, std::size_t length);
    ~MappedRange();
    MappedRange(const MappedRange &) = delete;
    MappedRange &operator=(const MappedRange &) = delete;

    std::vector<char> key() const;

private:
    Side &m_side;
    ucp_mem_h m_memh = nullptr;
};

/// Makes UCX deregister memory that was freed: it does so when it next registers something, not within the free.
void trigger_deregistration(Side &side);

/// A UCT domain and transport beside those of UCP: the domain allocates memory that UCP has not mapped.
class Cards {
public:
    const uct_side::Domain &domain() const { return m_domain; }
    void write(const Buffer &buffer, const Bytes &bytes) { m_transport.write(buffer, bytes); }
    /// Reads by the card's engines.
    Bytes read(const Buffer &buffer, std::size_t length) { return m_transport.read(buffer, length); }
    /// Reads through the dma-buf, which only the software card allows.
    Bytes read_dmabuf(const Buffer &buffer, std::size_t length) const;

private:
    uct_side::Domain m_domain;
    uct_side::Transport m_transport{m_domain};
};

/// What the owner of the memory lets the other side put.
struct WriteRequest {
    std::vector<char> key;
    std::uint64_t address = 0;
    std::vector<char> bytes;
};
/// Called by the owner; when it returns, the bytes have been written.
void request_write(Side &side, const WriteRequest &request);
/// Called by the owner after its last request.
void end_writes(Side &side);
/// Called by the other side: puts what the owner requests until end_writes.
void serve_writes(Side &side);

} // namespace e2e
