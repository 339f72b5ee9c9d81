// SPDX-License-Identifier: BSD-3-Clause
// A range of memory outside of a card that its copies may use: host memory, or a dma-buf where the driver imports those.
// It is mapped into a card at the first copy there, and stays mapped until the range ends or HostMemory needs the room:
// mapping pins pages and is the expensive part of a copy.
#pragma once

#include "gaudi/card/card.h"
#include "host_mapping.h"
#include "host_memory.h"
#include "thunk/fd.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace gaudi {

class HostRange final : public AccountedRange {
public:
    /// Whether HostMemory may unmap the range for others while it is idle.
    enum class Residency {
        evictable, // registered by a user; neighbours may be mapped together
        cached,    // evictable, and mapped alone
        permanent,
        own, // permanent, and allocated by this library
    };

    HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards,
              Residency residency = Residency::permanent);
    /// Memory that is known by `address` and can be reached only through a dma-buf, from `offset` of it on.
    HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards, thunk::Fd dmabuf, std::uint64_t offset);
    /// Waits (bounded) for copies that use it: a card that meets an unmapped address resets.
    ~HostRange();

    /// Whether the processor cannot touch it, so that copies have no other way than a mapping.
    bool is_dmabuf() const { return static_cast<bool>(m_dmabuf); }

    // ---- mappings; the caller holds the range (hold())
    /// Where the session's card sees `address`; 0 while it is not mapped.
    std::uint64_t find(const Session &session, std::uint64_t address) {
        m_last_use.store(HostMemory::now(), std::memory_order_relaxed);
        const std::uint64_t start = slot(session).start.load(std::memory_order_seq_cst);
        return start > kRefused ? start + (address - this->address()) : 0;
    }
    /// The same, mapped if need be.
    Result<std::uint64_t> map(Session &session, std::uint64_t address) {
        if (const std::uint64_t known = find(session, address)) [[likely]]
            return known;
        return map_now(session, address);
    }
    /// Whether a small copy is worth a mapping: the range is mapped already, or this is not its first small copy. A range
    /// that is copied once is better off staged.
    bool is_worth_mapping(const Session &session) {
        return slot(session).start.load(std::memory_order_relaxed) != 0 || m_small_copies++ != 0;
    }
    /// Whether map() fails for this session whenever it is called.
    bool is_refused(const Session &session) const {
        return slot(session).start.load(std::memory_order_acquire) == kRefused;
    }

    // ---- copies
    /// A copy begins that uses the range; it is released from any thread when the copy has ended. Either map() after this
    /// call or HostMemory sees what the other has written, so no copy uses a mapping that is being ended.
    void hold() { m_copies->fetch_add(1, std::memory_order_seq_cst); }
    void release() { release(*m_copies); }
    Copies &copies() { return *m_copies; }
    static void release(Copies &copies, bool abandoned = false) {
        if (abandoned)
            copies.fetch_add(kAbandoned, std::memory_order_release);
        else
            copies.fetch_sub(1, std::memory_order_release);
    }
    /// A copy that did not hold the range was abandoned and may still run.
    void abandon() {
        hold();
        release(*m_copies, true);
    }

private:
    bool has_running_copies() const {
        const std::uint64_t copies = m_copies->load(std::memory_order_acquire);
        return copies % kAbandoned != copies / kAbandoned;
    }
    void wait_for_copies();
    Result<HostMapping> make_mapping(Session &session, std::uint64_t begin, std::uint64_t length) const;
    Result<HostMapping> make_mapping_with_room(Session &session) const;
    Result<std::uint64_t> map_on(Session &session);
    Result<std::uint64_t> map_now(Session &session, std::uint64_t address);
    bool is_refused_by(const Session &session) const GAUDI_REQUIRES(m_mutex) {
        return !m_refused_by.empty() && m_refused_by[session.card().slot()] == &session;
    }

    const unsigned m_fork;
    const Residency m_residency;
    const thunk::Fd m_dmabuf;
    const std::uint64_t m_offset = 0; // in the dma-buf
    std::atomic<std::uint32_t> m_small_copies{0};
    std::atomic<bool> m_was_mapped{false};                               // or may be, with a neighbour
    os::Mutex m_mutex{rank::kHostRange};                                 // one thread maps it at a time
    Error m_refusal GAUDI_GUARDED_BY(m_mutex);                           // the last one
    std::vector<const Session *> m_refused_by GAUDI_GUARDED_BY(m_mutex); // for each card; empty: by none
};

} // namespace gaudi
