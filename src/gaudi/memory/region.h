// SPDX-License-Identifier: BSD-3-Clause
// One mapping of device memory: a driver block of the arena, divided among allocations, or a foreign mapping. Objects are
// recycled and never freed, because the address map hands them out without a lock; the fields that such a reader uses are
// atomic, and the generation tells one mapping in the object from the next.
#pragma once

#include "gaudi/card/range.h"
#include "gaudi/card/session.h"
#include "gaudi/host/host_range.h"
#include "heap.h"
#include "thunk/owners.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gaudi {

class Region {
public:
    Region() = default;
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

    std::uint64_t base() const { return m_base.load(std::memory_order_acquire); }
    std::uint64_t size() const { return m_size.load(std::memory_order_acquire); }
    bool contains(std::uint64_t address, std::uint64_t length) const {
        const std::uint64_t offset = address - base(), all = size();
        return offset < all && length <= all - offset;
    }
    Session &session() const { return *m_session.load(std::memory_order_acquire); }
    Card &card() const { return session().card(); }
    /// The generation is odd between begin() and end().
    bool alive() const { return generation() % 2 == 1; }
    std::uint64_t generation() const { return m_generation.load(std::memory_order_acquire); }
    /// The generation in which the region holds `address`; 0 if it does not hold it any more. A caller that reads more
    /// than one field compares it afterwards.
    std::uint64_t generation_with(std::uint64_t address) const {
        const std::uint64_t now = generation();
        return now % 2 == 1 && contains(address, 1) && generation() == now ? now : 0;
    }

    /// The allocation that holds `address`; the whole mapping where nothing is allocated, and for a foreign mapping.
    Range allocation(std::uint64_t address) const;

    enum class Origin {
        own,    // a block of the arena
        hooked, // foreign, and known until it is unmapped: seen by the memory hooks, or a pool of SynapseAI
        probed, // foreign, and found by probing the driver: it may have changed since
    };
    Origin origin() const { return m_origin.load(std::memory_order_acquire); }

    // ---- export
    /// The length of its exports, in whole pages: UCX rounds the ranges that it registers.
    std::uint64_t export_size() const { return (size() + kExportPage - 1) / kExportPage * kExportPage; }
    /// Whether the driver exports the mapping, as far as is known: it is probed at the first need.
    bool exportable() const { return m_exportable.load(std::memory_order_acquire); }
    void forbid_export(const std::string &why);
    /// After a shortage (such as EMFILE) that may have ended or not: not exportable, until a probe succeeds.
    void defer_export();
    bool export_deferred() const { return m_export_deferred.load(std::memory_order_acquire); }
    /// The last refusal of an export.
    std::string why_no_export() const;
    /// A new descriptor of the mapping's one export; the caller owns it. A foreign mapping has no export that is kept,
    /// because an exported mapping cannot be unmapped and its owner does not know of the export.
    Result<thunk::Fd> dmabuf();
    /// A shortage is tried again at once this often, and taken for a refusal after so many in a row.
    static constexpr unsigned kTriesAtOnce = 4, kMaxShortages = 8;
    /// Whether the driver exports the mapping, or why not; nothing where a shortage prevents the answer.
    std::optional<Result<void>> probe_export(unsigned tries = kTriesAtOnce);
    /// The number of the export's own descriptor, made if need be; -1 where there is none. It only names the memory in
    /// this process, and is no way to write to it.
    int export_descriptor();
    /// The same without making an export.
    int known_export_descriptor() const { return m_export_number.load(std::memory_order_acquire); }
    /// The mapping as other cards import it, held: it ends with the mapping, but not before it is released. Null where the
    /// mapping is not exported.
    HostRange *hold_import(std::size_t cards);
    /// Another card's engine is about to write to the mapping.
    void note_peer_write() { m_needs_flush.store(true, std::memory_order_release); }
    /// Whether a descriptor of the mapping was ever handed out, and may still be open.
    bool was_exported() const { return m_was_exported.load(std::memory_order_acquire); }
    /// Before a copy reads the mapping. The owner of foreign memory may have exported it itself, which no hook shows: a NIC may
    /// write to it from the start.
    void expect_foreign_writes();
    /// Whether a device may write to the mapping without its card, by PCIe. It stays true, because a descriptor that is still open
    /// cannot be seen: each reader flushes first.
    bool needs_flush() const { return m_needs_flush.load(std::memory_order_acquire); }

    // ---- for the owner of the mapping: Arena or ForeignMappings
    void begin(Session &session, Range range, Origin origin);
    void end();

    /// A driver block: its allocations and what it is made of. Null for a foreign mapping.
    struct Block {
        explicit Block(std::uint64_t size) : heap(size) {}

        Heap heap;
        std::uint64_t remainder = 0; // bytes that allocations as large as the first one leave over
        thunk::Allocation allocation;
        thunk::Mapping mapping;
    };
    Block *block() const { return m_block.get(); }
    /// Once per object, before it is first used.
    void make_block(std::uint64_t size) { m_block = std::make_unique<Block>(size); }

private:
    static constexpr std::uint64_t kExportPage = 4096;

    Result<thunk::Fd> new_export() GAUDI_REQUIRES(m_export_mutex);
    Result<void> make_export() GAUDI_REQUIRES(m_export_mutex);
    Result<thunk::Fd> new_descriptor() GAUDI_REQUIRES(m_export_mutex);
    void note_refusal(const Error &error) GAUDI_REQUIRES(m_export_mutex);
    void note_success() GAUDI_REQUIRES(m_export_mutex);
    void set_deferred() GAUDI_REQUIRES(m_export_mutex);
    void note_handed_out();

    std::atomic<std::uint64_t> m_base{0}, m_size{0}, m_generation{0};
    std::atomic<Session *> m_session{nullptr};
    std::atomic<Origin> m_origin{Origin::own};
    std::atomic<bool> m_exportable{true}, m_export_deferred{false}, m_was_exported{false}, m_needs_flush{false};
    std::unique_ptr<Block> m_block;

    os::Mutex m_export_mutex{rank::kExport};
    unsigned m_shortages GAUDI_GUARDED_BY(m_export_mutex) = 0; // since the last success
    thunk::Fd m_export GAUDI_GUARDED_BY(m_export_mutex);
    std::unique_ptr<HostRange> m_import GAUDI_GUARDED_BY(m_export_mutex);
    std::atomic<int> m_export_number{-1};

    mutable os::Mutex m_refusal_mutex{rank::kRefusal};
    std::string m_why_no_export GAUDI_GUARDED_BY(m_refusal_mutex);
};

} // namespace gaudi
