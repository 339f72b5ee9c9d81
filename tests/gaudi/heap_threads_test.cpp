// SPDX-License-Identifier: BSD-3-Clause
// A lookup takes no lock: readers must be right while one writer allocates and frees.
#include "gaudi/memory/heap.h"
#include "random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

using gaudi::Heap;
using gaudi::test::Random;

namespace {

constexpr std::uint64_t kGranule = Heap::kGranule;

TEST(HeapThreads, readers_find_live_allocations_while_a_writer_changes_others) {
    constexpr unsigned kReaders = 8, kSteps = 100'000;
    constexpr std::uint64_t kSlots = 64, kSlot = 1024 * kGranule;
    Heap heap(kSlots * kSlot);
    // One long-lived allocation in each slot, of a size that spans words of the bitmap in some and not in others.
    std::vector<Heap::Piece> stays;
    for (std::uint64_t i = 0; i < kSlots; ++i) {
        stays.push_back({i * kSlot + 100 * kGranule, (1 + 7 * i) * kGranule - i});
        ASSERT_TRUE(heap.allocate_at(stays.back().offset, stays.back().length));
    }
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> wrong{0}, looked{0}; // by how many readers
    std::vector<std::thread> readers;
    for (unsigned reader = 0; reader < kReaders; ++reader)
        readers.emplace_back([&, reader] {
            Random random(reader);
            bool first = true;
            do {
                const Heap::Piece &piece = stays[random.below(kSlots)];
                const auto found = heap.find(piece.offset + random.below(piece.length));
                if (!found || found->offset != piece.offset || found->length != piece.length)
                    ++wrong;
                // A temporary allocation is either not found or holds the address.
                const std::uint64_t offset = random.below(heap.size());
                const auto maybe = heap.find(offset);
                if (maybe && (offset < maybe->offset || offset - maybe->offset >= maybe->length))
                    ++wrong;
                looked += std::exchange(first, false) ? 1 : 0;
            } while (!over.load());
        });
    while (looked.load() < kReaders) // all readers have begun
        std::this_thread::yield();
    Random random(4711);
    std::vector<std::uint64_t> temporary;
    for (unsigned step = 0; step < kSteps; ++step) {
        if (temporary.size() < 500 && !random.one_in(3)) {
            if (const auto offset = heap.allocate(random.size(11, 21), 1))
                temporary.push_back(*offset);
        } else if (!temporary.empty()) {
            std::swap(temporary[random.below(temporary.size())], temporary.back());
            EXPECT_TRUE(heap.free(temporary.back()));
            temporary.pop_back();
        }
    }
    over.store(true);
    for (std::thread &reader : readers)
        reader.join();
    EXPECT_EQ(wrong.load(), 0u);
}

} // namespace
