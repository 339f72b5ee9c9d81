// SPDX-License-Identifier: BSD-3-Clause
// One mapping of device memory: a driver block of our own, divided among allocations, or one that somebody else in the
// process made. Objects are recycled and never freed, because the address map hands them out without a lock; what such
// a reader looks at is atomic, and the generation tells one life from the next.
#pragma once

#include "heap.h"
#include "thunk/owners.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace gaudi {

class Card;
class HostRange;

using Error = thunk::Error;
template <class T>
using Result = thunk::Result<T>;

struct Range {
    std::uint64_t base = 0;
    std::uint64_t length = 0;
};

class Region {
public:
    Region();
    ~Region();
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

    std::uint64_t base() const { return m_base.load(std::memory_order_acquire); }
    std::uint64_t size() const { return m_size.load(std::memory_order_acquire); }
    bool contains(std::uint64_t address, std::uint64_t length) const {
        return address - base() < size() && length <= size() - (address - base());
    }
    Card &card() const { return *m_card.load(std::memory_order_acquire); }
    /// Between begin and end; the generation is odd then.
    bool alive() const { return generation() % 2 == 1; }
    std::uint64_t generation() const { return m_generation.load(std::memory_order_acquire); }
    /// The generation in which it holds `address`; 0 if it does not any more. Who found it and asks for more than one thing
    /// compares this afterwards.
    std::uint64_t generation_with(std::uint64_t address) const {
        const std::uint64_t now = generation();
        return now % 2 == 1 && contains(address, 1) && generation() == now ? now : 0;
    }

    /// The allocation that holds `address`; the whole mapping where nothing is allocated, or where it is not ours.
    Range allocation(std::uint64_t address) const;

    /// Whose mapping it is. What others made and nobody saw was found by asking the driver, and may have changed since.
    enum class Origin { ours, seen, asked };
    Origin origin() const { return m_origin.load(std::memory_order_acquire); }

    /// The length of its exports, which are of whole pages: UCX rounds what it registers.
    std::uint64_t export_size() const { return (size() + kExportPage - 1) / kExportPage * kExportPage; }
    /// Whether the driver exports it, as far as is known: it is asked at the first need.
    bool exportable() const { return m_exportable.load(std::memory_order_acquire); }
    void forbid_export(const std::string &why);
    /// After a shortage (such as EMFILE) of which nobody knows whether it has ended: not exportable, until a probe succeeds.
    void defer_export();
    bool export_deferred() const { return m_export_deferred.load(std::memory_order_acquire); }
    /// The last refusal of an export.
    std::string why_no_export() const;
    /// A new descriptor of the one export that the mapping has. The caller owns it. Others' memory has none that is kept:
    /// what is exported cannot be unmapped, and they do not know of us.
    Result<thunk::Fd> dmabuf();
    /// A shortage is tried again at once this often, and taken for an answer when so many have followed each other.
    static constexpr unsigned kTriesAtOnce = 4, kMostShortages = 8;
    /// Whether the driver exports it, or why not; nothing where a shortage hides that. Nothing is handed out.
    std::optional<Result<void>> probe_export(unsigned tries = kTriesAtOnce);
    /// The number of the export's own descriptor, made if need be; -1 where there is none. It only names the memory:
    /// nobody can write through it.
    int export_descriptor();
    /// The same without making one.
    int known_export_descriptor() const { return m_export_number.load(std::memory_order_acquire); }
    /// It as other cards see it, where their driver imports it, and held: it ends when the mapping does, but not before it
    /// is released. Null where it is not exported.
    HostRange *hold_window();
    /// Another card's engine is about to write to it.
    void written_by_others() { m_needs_flush.store(true, std::memory_order_release); }
    /// Whether a descriptor of it was ever handed out, and may still be open.
    bool was_exported() const { return m_was_exported.load(std::memory_order_acquire); }
    /// Whether a device may write to it past its card, now and from now on, because it cannot be seen whether a descriptor
    /// is still open: each reader must flush first.
    bool needs_flush() const { return m_needs_flush.load(std::memory_order_acquire); }

private:
    static constexpr std::uint64_t kExportPage = 4096;

    friend class Arena;
    friend class Foreign;

    // For these the mutex is held.
    Result<thunk::Fd> new_export();
    Result<void> make_export();
    Result<thunk::Fd> new_descriptor();
    void note_refusal(const Error &error);
    void note_success();
    void set_deferred();
    /// Looks for devices each time, so that one whose driver was loaded later is not missed when its user asks for a
    /// descriptor. A descriptor that was handed out before that is not looked at again.
    void note_handed_out();
    void begin(Card &card, std::uint64_t base, std::uint64_t size, Origin origin = Origin::ours);
    void end();

    std::atomic<std::uint64_t> m_base{0}, m_size{0}, m_generation{0};
    std::atomic<Card *> m_card{nullptr};
    std::atomic<Origin> m_origin{Origin::ours};
    std::atomic<bool> m_exportable{true}, m_export_deferred{false}, m_was_exported{false}, m_needs_flush{false};
    std::unique_ptr<Heap> m_heap; // made once for the size; null for a mapping of others

    std::uint64_t m_left_over = 0; // of the block, by allocations as large as the first one in it; the arena's
    thunk::Allocation m_allocation;
    thunk::Mapping m_mapping;
    std::mutex m_export_mutex;
    unsigned m_shortages = 0; // since the last success
    thunk::Fd m_export;
    std::atomic<int> m_export_number{-1};
    std::unique_ptr<HostRange> m_window;

    mutable std::mutex m_why_mutex; // no other is taken while it is held
    std::string m_why_no_export;
};

} // namespace gaudi
