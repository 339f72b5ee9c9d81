// SPDX-License-Identifier: BSD-3-Clause
// Host memory as the copies of one session address it.
#pragma once

#include "gaudi/card/session.h"

#include <cstdint>
#include <memory>
#include <utility>

namespace gaudi {

/// Makes host memory reachable for the copies of one session: through the driver, or through the framework where that
/// makes the copies.
class HostMapper {
public:
    virtual ~HostMapper() = default;

    /// The address by which copies reach the memory.
    virtual Result<std::uint64_t> map(void *address, std::uint64_t length) = 0;
    /// The same for the first `length` bytes of a dma-buf.
    virtual Result<std::uint64_t> import_dmabuf(int dmabuf, std::uint64_t length) = 0;
    virtual Result<void> unmap(std::uint64_t start) = 0;
    /// Whether mapping and unmapping memory of others could end a mapping that is not this library's: then it maps only
    /// memory that this library has allocated, and all other memory is staged there.
    virtual bool maps_own_memory_only() const { return false; }
    /// Whether unmap() may wait for another thread that waits for this one: it is called with no lock held then.
    virtual bool unmap_may_block() const = 0;
};

/// One mapping, for as long as this object lives.
class HostMapping {
public:
    HostMapping(Session &session, std::shared_ptr<HostMapper> mapper, std::uint64_t start)
        : m_session(&session), m_mapper(std::move(mapper)), m_start(start) {}
    HostMapping(HostMapping &&other) noexcept = default;
    HostMapping &operator=(HostMapping &&other) noexcept;
    ~HostMapping() { end(); }

    Session &session() const { return *m_session; }
    std::uint64_t start() const { return m_start; }
    bool unmap_may_block() const { return m_mapper && m_mapper->unmap_may_block(); }
    /// Leaves the memory mapped: the driver unmaps it with the descriptor.
    void detach() { m_mapper.reset(); }

private:
    void end();

    Session *m_session;
    std::shared_ptr<HostMapper> m_mapper;
    std::uint64_t m_start;
};

} // namespace gaudi
