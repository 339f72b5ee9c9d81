// SPDX-License-Identifier: BSD-3-Clause
// Divides one block of device memory among allocations. A driver block is 768 MiB on a Gaudi2, far too much for one
// allocation. All bookkeeping is beside the memory, which the CPU cannot touch, and constant in time: free pieces are
// kept by size class, and a bitmap of piece starts answers "which allocation holds this address" without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gaudi {

class Heap {
public:
    /// What is handed out: allocations never share a host page, so that no dma-buf registration covers two of them.
    static constexpr std::uint64_t kGranule = 4096;

    struct Piece {
        std::uint64_t offset = 0;
        std::uint64_t length = 0; // as asked for
    };

    explicit Heap(std::uint64_t size);
    ~Heap();
    Heap(const Heap &) = delete;
    Heap &operator=(const Heap &) = delete;

    std::uint64_t size() const { return m_granules * kGranule; }
    std::uint64_t used() const { return m_used * kGranule; }
    bool empty() const { return m_used == 0; }
    std::uint32_t allocations() const { return m_allocations; }

    // ---- one caller at a time
    /// An offset that is a multiple of `alignment` (a power of two) when `origin` is added to it, or nothing. From 1 MiB on,
    /// without alignment, nothing means that no free piece is large enough; smaller ones may be overlooked among many.
    std::optional<std::uint64_t> allocate(std::uint64_t length, std::uint64_t alignment, std::uint64_t origin = 0);
    /// The range at exactly `offset` (a multiple of the granule), or nothing.
    bool allocate_at(std::uint64_t offset, std::uint64_t length);
    /// `offset` is what allocate gave; false for anything else.
    bool free(std::uint64_t offset);
    /// Forgets all allocations.
    void reset();

    // ---- any thread, no lock
    /// The live allocation that holds `offset`.
    std::optional<Piece> find(std::uint64_t offset) const;

private:
    static constexpr unsigned kFirstLevels = 32;
    static constexpr unsigned kSecondLevels = 16;
    static constexpr std::uint32_t kNone = UINT32_MAX;

    struct Entry {
        std::atomic<std::uint32_t> granules; // of the piece that starts here
        std::atomic<std::uint32_t> slack;    // used: granule bytes beyond what was asked for, plus one; free: 0
        std::uint32_t before;                // start of the piece in front
        std::uint32_t next_free;
        std::uint32_t previous_free;
    };
    struct Class {
        unsigned first, second;
    };

    static Class class_of(std::uint32_t granules);
    static Class class_to_search(std::uint32_t granules);

    std::uint32_t find_free(std::uint32_t granules) const;
    void insert_free(std::uint32_t start, std::uint32_t granules);
    void remove_free(std::uint32_t start);
    /// Takes [start, start + granules) out of the free piece at `piece` and marks it used.
    void take(std::uint32_t piece, std::uint32_t start, std::uint32_t granules, std::uint64_t length);
    void set_before(std::uint32_t after, std::uint32_t start);
    std::uint32_t granules(std::uint32_t start) const;
    bool is_free(std::uint32_t start) const;

    void mark(std::uint32_t start);
    void unmark(std::uint32_t start);
    std::uint32_t start_at_or_before(std::uint32_t granule) const;

    static constexpr unsigned kBitLevels = 5; // 64^5 granules: more than any card has
    std::uint32_t m_granules;
    std::uint32_t m_used = 0;
    std::uint32_t m_allocations = 0;
    Entry *m_entries = nullptr; // one per granule, on pages that cost nothing until touched
    std::array<std::atomic<std::uint64_t> *, kBitLevels> m_bits{};
    void *m_memory = nullptr;
    std::size_t m_memory_size = 0;

    std::uint32_t m_first_map = 0;
    std::array<std::uint32_t, kFirstLevels> m_second_map{};
    std::array<std::array<std::uint32_t, kSecondLevels>, kFirstLevels> m_heads{};
};

} // namespace gaudi
