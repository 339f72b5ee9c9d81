// SPDX-License-Identifier: BSD-3-Clause
// Which device memory an address belongs to: the table of live mappings, and nothing else, decides. Looking up takes
// nanoseconds, no lock and no system call, because UCX asks for every buffer it is given.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace gaudi {

class Region;

class AddressMap {
public:
    AddressMap();
    ~AddressMap();
    AddressMap(const AddressMap &) = delete;
    AddressMap &operator=(const AddressMap &) = delete;

    /// `region` must stay valid memory for ever after: a reader may hold it while it is removed.
    void insert(std::uint64_t begin, std::uint64_t length, Region *region);
    void remove(std::uint64_t begin, const Region *region);

    /// The region that holds `address`, or null.
    Region *find(std::uint64_t address) const {
        // Most addresses are host memory: out at once.
        return address < m_lowest.load(std::memory_order_relaxed) ||
                       address >= m_highest.load(std::memory_order_relaxed)
                   ? nullptr
                   : search(address);
    }
    /// Visits all of them, by their addresses, as visit(begin, end, region). None comes or goes meanwhile, so it must
    /// not wait for anything.
    template <class Visit>
    void for_each(const Visit &visit) const {
        const std::lock_guard guard(m_writers);
        const Table &table = *m_table.load(std::memory_order_relaxed);
        for (std::uint32_t i = 0; i < size(); ++i)
            visit(table.begins[i].load(std::memory_order_relaxed), table.entries[i].end.load(std::memory_order_relaxed),
                  *table.entries[i].region.load(std::memory_order_relaxed));
    }
    std::uint32_t size() const { return m_count.load(std::memory_order_relaxed); }

private:
    struct Entry {
        std::atomic<std::uint64_t> end;
        std::atomic<Region *> region;
    };
    struct Table {
        explicit Table(std::uint32_t size, Table *before);
        void copy(std::uint32_t to, const Table &from, std::uint32_t index);

        const std::uint32_t capacity;
        // Searched by themselves: those of thousands of mappings fit into the nearest caches.
        const std::unique_ptr<std::atomic<std::uint64_t>[]> begins;
        const std::unique_ptr<Entry[]> entries;
        const std::unique_ptr<Table> older; // left to its readers
    };

    Region *search(std::uint64_t address) const;
    void grow();

    std::uint32_t first_at(std::uint64_t begin) const;

    mutable std::mutex m_writers;
    // Readers take a look and check that no writer was at work meanwhile; old tables are kept, so they read safely.
    std::atomic<std::uint32_t> m_version{0};
    std::atomic<Table *> m_table;
    std::atomic<std::uint32_t> m_count{0};
    std::atomic<std::uint64_t> m_lowest{UINT64_MAX}, m_highest{0};
};

} // namespace gaudi
