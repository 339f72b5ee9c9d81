// SPDX-License-Identifier: BSD-3-Clause
// The table of live mappings, which alone decides what is device memory. A lookup takes nanoseconds, no lock and no system
// call, because UCX makes one for every buffer it is given.
#pragma once

#include "gaudi/card/lock_ranks.h"
#include "os/mutex.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace gaudi {

class Region;

class AddressMap {
public:
    AddressMap();
    ~AddressMap();
    AddressMap(const AddressMap &) = delete;
    AddressMap &operator=(const AddressMap &) = delete;

    /// `region` is never freed afterwards: a reader may hold it while it is removed.
    void insert(std::uint64_t begin, std::uint64_t length, Region *region);
    void remove(std::uint64_t begin, const Region *region);

    /// The region that holds `address`, or null.
    Region *find(std::uint64_t address) const {
        // Most addresses are host memory.
        return address < m_lowest.load(std::memory_order_relaxed) ||
                       address >= m_highest.load(std::memory_order_relaxed)
                   ? nullptr
                   : search(address);
    }
    /// Calls visit(begin, end, region) for each, by address, with the writers' lock held: it must not wait.
    template <class Visit>
    void for_each(const Visit &visit) const {
        const os::MutexLock lock(m_writers);
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
        // Apart from the entries, because those of thousands of mappings fit into the nearest caches.
        const std::unique_ptr<std::atomic<std::uint64_t>[]> begins;
        const std::unique_ptr<Entry[]> entries;
        const std::unique_ptr<Table> older; // readers may still use it
    };

    Region *search(std::uint64_t address) const;
    void grow() GAUDI_REQUIRES(m_writers);
    std::uint32_t first_at(std::uint64_t begin) const GAUDI_REQUIRES(m_writers);

    mutable os::Mutex m_writers{rank::kAddressMap};
    // A reader checks afterwards that no writer was at work meanwhile; old tables are kept, so it reads valid memory.
    std::atomic<std::uint32_t> m_version{0};
    std::atomic<Table *> m_table;
    std::atomic<std::uint32_t> m_count{0};
    std::atomic<std::uint64_t> m_lowest{UINT64_MAX}, m_highest{0};
};

} // namespace gaudi
