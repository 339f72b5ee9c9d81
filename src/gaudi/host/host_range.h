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
#include <optional>
#include <vector>

namespace gaudi {

class HostRange final : public AccountedRange {
public:
    /// Whether HostMemory may unmap the range for others while it is idle.
    enum class Residency {
        evictable,
        permanent,
        own, // permanent, and allocated by this library
    };

    HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards,
              Residency residency = Residency::permanent);
    /// Memory that is known by `address` and can be reached only through a dma-buf, from `offset` of it on.
    HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards, thunk::Fd dmabuf, std::uint64_t offset);
    /// Waits (bounded) for copies that use it: a card that meets an unmapped address resets.
    ~HostRange();
    HostRange(const HostRange &) = delete;
    HostRange &operator=(const HostRange &) = delete;

    std::uint64_t address() const { return m_address; }
    std::uint64_t length() const { return m_length; }
    bool contains(std::uint64_t address, std::uint64_t length) const {
        return address >= m_address && length <= m_length && address - m_address <= m_length - length;
    }
    /// Whether the processor cannot touch it, so that copies have no other way than a mapping.
    bool is_dmabuf() const { return static_cast<bool>(m_dmabuf); }

    // ---- mappings; the caller holds the range (hold())
    /// Where the session's card sees `address`; 0 while it is not mapped.
    std::uint64_t find(const Session &session, std::uint64_t address) {
        m_last_use.store(HostMemory::now(), std::memory_order_relaxed);
        const std::uint64_t start = slot(session).load(std::memory_order_seq_cst);
        return start > kRefused ? start + (address - m_address) : 0;
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
        return slot(session).load(std::memory_order_relaxed) != 0 || m_small_copies++ != 0;
    }
    /// Whether map() fails for this session whenever it is called.
    bool is_refused(const Session &session) const { return slot(session).load(std::memory_order_acquire) == kRefused; }

    // ---- copies
    /// How many copies use the range (low half), and how many of these were abandoned but may still run (high half).
    using Copies = std::atomic<std::uint64_t>;
    /// A copy begins that uses the range; it is released from any thread when the copy has ended. Either map() after this
    /// call or unmap_if_idle() sees what the other has written, so no copy uses a mapping that is being ended.
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

    // ---- for HostMemory
    bool evictable() const override { return m_residency == Residency::evictable; }
    std::uint64_t last_use() const override { return m_last_use.load(std::memory_order_relaxed); }
    bool unmap_if_idle(std::vector<HostMapping> &later) override;
    std::optional<unsigned> unmap_from(const Session &session) override;
    bool is_being_mapped() const override { return m_being_mapped.load(std::memory_order_acquire); }
    void end_mappings(std::vector<HostMapping> &later) override;

private:
    static constexpr std::uint64_t kRefused = 1;            // no mapping starts there
    static constexpr std::uint64_t kAbandoned = 1ull << 32; // one abandoned copy

    bool has_running_copies() const {
        const std::uint64_t copies = m_copies->load(std::memory_order_acquire);
        return copies % kAbandoned != copies / kAbandoned;
    }
    std::atomic<std::uint64_t> &slot(const Session &session) { return m_starts[session.card().slot()]; }
    const std::atomic<std::uint64_t> &slot(const Session &session) const { return m_starts[session.card().slot()]; }
    void wait_for_copies();
    Result<HostMapping> make_mapping(Session &session) const;
    Result<HostMapping> make_mapping_with_room(Session &session) const;
    Result<std::uint64_t> map_now(Session &session, std::uint64_t address);
    Result<std::uint64_t> refuse(Error error) GAUDI_REQUIRES(m_mutex);
    bool is_refused_by(const Session &session) const GAUDI_REQUIRES(m_mutex) {
        return m_refused_by[session.card().slot()] == &session;
    }

    const unsigned m_fork;
    const std::uint64_t m_address;
    const std::uint64_t m_length;
    const Residency m_residency;
    const thunk::Fd m_dmabuf;
    const std::uint64_t m_offset = 0; // in the dma-buf
    // Where each card's session sees the range; 0: not mapped. kRefused: the session of m_refused_by cannot map it.
    std::vector<std::atomic<std::uint64_t>> m_starts;
    std::shared_ptr<Copies> m_copies = std::make_shared<Copies>(0); // outlives the range if an abandoned copy does
    std::atomic<std::uint32_t> m_small_copies{0};
    std::atomic<std::uint64_t> m_last_use{0};
    std::atomic<bool> m_was_mapped{false}, m_being_mapped{false};
    os::Mutex m_mutex{rank::kHostRange};
    Error m_refusal GAUDI_GUARDED_BY(m_mutex);                           // the last one
    std::vector<const Session *> m_refused_by GAUDI_GUARDED_BY(m_mutex); // for each card
    std::vector<HostMapping> m_mappings GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi
