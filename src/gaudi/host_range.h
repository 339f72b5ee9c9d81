// SPDX-License-Identifier: BSD-3-Clause
// A range of memory outside of a card that it may copy from and to: host memory, or somebody's dma-buf where the driver
// imports those. It is mapped into a card's address space at the first copy there, and stays so until the range ends
// or others need the room: mapping pins pages and is the expensive part of a copy.
#pragma once

#include "card.h"
#include "pinned.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gaudi {

/// Host memory as a card sees it, for as long as it lives: by the driver, or by the framework that has the card.
class HostMapping {
public:
    explicit HostMapping(thunk::Mapping mapping) : m_mapping(std::move(mapping)), m_start(m_mapping.get()) {}
    HostMapping(Copier &copier, void *address)
        : m_copier(&copier), m_address(address), m_start(reinterpret_cast<std::uint64_t>(address)) {}
    HostMapping(HostMapping &&other) noexcept
        : m_mapping(std::move(other.m_mapping)), m_copier(std::exchange(other.m_copier, nullptr)),
          m_address(other.m_address), m_start(other.m_start), m_forks(other.m_forks) {}
    HostMapping &operator=(HostMapping &&other) noexcept;
    ~HostMapping() { end(); }

    std::uint64_t start() const { return m_start; }
    bool by_framework() const { return m_copier != nullptr; }
    /// Leaves it mapped.
    void detach();

private:
    void end();

    thunk::Mapping m_mapping;
    Copier *m_copier = nullptr;
    void *m_address = nullptr;
    std::uint64_t m_start;
    unsigned m_forks = forks(); // one that was made before a fork is the parent's to end
};

class HostRange {
public:
    HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards);
    /// Memory that is known by `address` and can be reached only through a dma-buf, from `offset` of it on.
    HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards, thunk::Fd dmabuf, std::uint64_t offset);
    /// Waits (bounded) for copies that are at it: to unmap memory under a card's hands would reset it.
    ~HostRange();
    HostRange(const HostRange &) = delete;
    HostRange &operator=(const HostRange &) = delete;

    std::uint64_t address() const { return m_address; }
    std::uint64_t length() const { return m_length; }
    bool contains(std::uint64_t address, std::uint64_t length) const {
        return address >= m_address && length <= m_length && address - m_address <= m_length - length;
    }

    /// From now on it counts as pinned, and is unmapped while it is idle when others need the room.
    void may_leave() { m_may_leave = true; }

    /// Where the card sees `address`, or nothing where the memory cannot be pinned or imported. Who asks holds it.
    std::optional<std::uint64_t> on(Card &card, std::uint64_t address) {
        m_last_use.store(Pinned::now(), std::memory_order_relaxed);
        const std::uint64_t known = m_starts[card.index()].load(std::memory_order_seq_cst);
        return known > kRefused ? std::optional(known + (address - m_address)) : map_on(card, address);
    }
    /// Whether a small copy is worth a mapping of it: when it is not the first one, or there is a mapping already. Who
    /// copies from it once is better off without.
    bool worth_mapping(const Card &card) {
        return m_starts[card.index()].load(std::memory_order_relaxed) != 0 || m_small_copies++ != 0;
    }
    /// Whether on() has no answer for this card for good.
    bool refused(const Card &card) const { return m_starts[card.index()].load(std::memory_order_acquire) == kRefused; }
    /// A copy begins that uses it; any thread may say that it has ended. Of this with on(), and of unmap_if_idle(), which
    /// write one and read the other, at least one sees what the other wrote.
    void hold() { m_copies->fetch_add(1, std::memory_order_seq_cst); }
    void release() { release(*m_copies); }
    /// How many copies use it (low half), and how many of these were given up but may still run (high half).
    using Copies = std::atomic<std::uint64_t>;
    Copies &copies() { return *m_copies; }
    static void release(Copies &copies, bool abandoned = false) {
        if (abandoned)
            copies.fetch_add(kAbandoned, std::memory_order_release);
        else
            copies.fetch_sub(1, std::memory_order_release);
    }
    /// A copy that did not hold it was given up, and may still run.
    void abandon() {
        hold();
        release(*m_copies, true);
    }
    /// Why on() had no answer the last time.
    std::string refusal() {
        const std::lock_guard guard(m_mutex);
        return m_refusal;
    }

    // ---- for Pinned
    bool leaves() const { return m_may_leave; }
    std::uint64_t last_use() const { return m_last_use.load(std::memory_order_relaxed); }
    /// Those that a framework made are handed out, to be ended when no lock is held.
    bool unmap_if_idle(std::vector<HostMapping> &later);
    /// How many mappings ended; nothing while another thread is at it.
    std::optional<unsigned> unmap_from(const Card &card);
    /// Whether that thread is in a call that makes a mapping, of which nobody knows before Pinned::add has agreed.
    bool being_mapped() const { return m_being_mapped.load(std::memory_order_acquire); }
    void end_mappings(std::vector<HostMapping> &later);

    /// Whether the processor cannot touch it, so that there is no other way than on().
    bool is_dmabuf() const { return static_cast<bool>(m_dmabuf); }

private:
    static constexpr std::uint64_t kRefused = 1;            // no mapping starts there
    static constexpr std::uint64_t kAbandoned = 1ull << 32; // one of them, among the copies

    bool has_running_copies() const {
        const std::uint64_t copies = m_copies->load(std::memory_order_acquire);
        return copies % kAbandoned != copies / kAbandoned;
    }
    void wait_for_copies();
    Result<HostMapping> map(Card &card) const;
    Result<HostMapping> map_with_room(Card &card) const;
    std::optional<std::uint64_t> map_on(Card &card, std::uint64_t address);

    const unsigned m_forks = forks();
    const std::uint64_t m_address;
    const std::uint64_t m_length;
    const thunk::Fd m_dmabuf;
    const std::uint64_t m_offset = 0;                 // in the dma-buf
    std::vector<std::atomic<std::uint64_t>> m_starts; // per card; 0 is not mapped yet, kRefused never will be
    std::unique_ptr<Copies> m_copies = std::make_unique<Copies>(0); // outlives the range if a copy does
    std::atomic<std::uint32_t> m_small_copies{0};
    std::atomic<std::uint64_t> m_last_use{0};
    bool m_may_leave = false;
    std::atomic<bool> m_was_mapped{false}, m_being_mapped{false};
    std::mutex m_mutex;
    std::string m_refusal;
    struct Mapped {
        Card *card;
        HostMapping mapping;
    };
    std::vector<Mapped> m_mappings;
};

} // namespace gaudi
