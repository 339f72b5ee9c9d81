// SPDX-License-Identifier: BSD-3-Clause
// Ranges kept for memory that no user registered: found again, dropped when the memory goes away, bounded in number.
#include "allocation_news.h"
#include "engine_user.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"
#include "gaudi/host/host_cache.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;

namespace {

constexpr std::uint64_t kPageSize = 4096, kFake = 0x5000'0000'0000;

class HostCacheTest : public GaudiTest {
protected:
    static std::shared_ptr<HostRange> find(std::uint64_t address, std::uint64_t length) {
        return HostCache::get().find(address, length, 8);
    }
    static void forget(std::uint64_t address, std::uint64_t length) { HostCache::forget(address, length); }
};

TEST_F(HostCacheTest, cache_is_off_until_enabled) {
    EXPECT_FALSE(HostCache::get().enabled());
    EXPECT_EQ(find(kFake, 100), nullptr);
    forget(kFake, 100);
    HostCache::get().enable();
    EXPECT_NE(find(kFake, 100), nullptr);
}

TEST_F(HostCacheTest, address_inside_a_range_finds_it) {
    HostCache::get().enable();
    const auto range = find(kFake + 100, 3 * kPageSize);
    EXPECT_EQ(range->address(), kFake) << "whole pages";
    EXPECT_EQ(range->length(), 4 * kPageSize);
    EXPECT_EQ(find(kFake + 100, 3 * kPageSize), range);
    EXPECT_EQ(find(kFake, 1), range);
    EXPECT_EQ(find(kFake + 4 * kPageSize - 1, 1), range);
    EXPECT_NE(find(kFake + 4 * kPageSize, 1), range);
    EXPECT_NE(find(kFake - 1, 1), range);
    EXPECT_EQ(find(kFake + 5, 5), range) << "neighbours leave the range alone";
}

TEST_F(HostCacheTest, short_memory_is_kept_from_its_second_copy) {
    HostCache::get().enable();
    const auto find_if_worth = [](std::uint64_t address, std::uint64_t length) {
        return HostCache::get().find(address, length, 8, 100'000);
    };
    EXPECT_EQ(find_if_worth(kFake, 50'000), nullptr);
    EXPECT_EQ(find_if_worth(kFake + 65536, 50'000), nullptr) << "other memory";
    EXPECT_NE(find_if_worth(kFake, 50'000), nullptr);
    EXPECT_NE(find_if_worth(kFake, 50'000), nullptr);
    EXPECT_NE(find_if_worth(2 * kFake, 100'000), nullptr) << "long enough";
}

TEST_F(HostCacheTest, overlapping_range_replaces_older_ones) {
    HostCache::get().enable();
    const auto first = find(kFake, kPageSize), second = find(kFake + 2 * kPageSize, kPageSize);
    const auto both = find(kFake, 3 * kPageSize);
    EXPECT_EQ(find(kFake, 10), both);
    EXPECT_EQ(find(kFake + 2 * kPageSize, 10), both);
    EXPECT_NE(both, first);
    EXPECT_EQ(first.use_count(), 1) << "the cache has dropped it";
    EXPECT_EQ(second.use_count(), 1);
}

TEST_F(HostCacheTest, forgotten_range_is_not_found) {
    HostCache::get().enable();
    for (const auto &[begin, length] : {std::pair{kFake, kPageSize},
                                        {kFake - 1, std::uint64_t{2}},
                                        {kFake + 3 * kPageSize, std::uint64_t{1}},
                                        {kFake - kPageSize, 100 * kPageSize},
                                        {std::uint64_t{0}, UINT64_MAX}}) {
        const auto range = find(kFake, 4 * kPageSize);
        forget(begin, length);
        EXPECT_NE(find(kFake, 4 * kPageSize), range) << begin << ' ' << length;
        EXPECT_EQ(range.use_count(), 1) << begin << ' ' << length;
    }
    const auto range = find(kFake, 4 * kPageSize);
    forget(kFake - kPageSize, kPageSize);
    forget(kFake + 4 * kPageSize, kPageSize);
    EXPECT_EQ(find(kFake, 1), range) << "memory beside the range does not count";
}

TEST_F(HostCacheTest, least_recently_used_range_is_dropped_first) {
    HostCache::get().enable();
    const std::weak_ptr<HostRange> first = find(kFake, 1), second = find(kFake + 2 * kPageSize, 1);
    for (std::uint64_t i = 2; i < HostCache::kMaxRanges; ++i)
        find(kFake + i * 2 * kPageSize, 1);
    EXPECT_FALSE(first.expired()) << "there is room for so many";
    find(kFake, 1);
    find(kFake + HostCache::kMaxRanges * 2 * kPageSize, 1);
    EXPECT_FALSE(first.expired()) << "it was used again";
    EXPECT_TRUE(second.expired());
}

TEST_F(HostCacheTest, mapped_bytes_stay_within_the_limit) {
    constexpr std::uint64_t kLength = 2 * kMiB; // always worth a mapping
    change_settings([&](Settings &settings) { settings.max_mapped_host.value = 2 * kLength; });
    HostCache::get().enable();
    Mover mover(cards());
    const HostBuffer host(3 * kLength);
    const std::uint64_t memory = value(allocate(card(), {.length = kLength}));
    value(start_engine(card()));
    const Counters before(card());
    for (std::uint64_t i = 0; i < 3; ++i)
        ASSERT_TRUE(is_ok(run_copy(mover, memory, host.address(i * kLength), kLength)));
    EXPECT_EQ(HostMemory::get().mapped_bytes(), 2 * kLength);
    const Counters after(card());
    EXPECT_EQ(after.calls("host_memory_map") - before.calls("host_memory_map"), 3u);
    EXPECT_EQ(after.calls("memory_unmap") - before.calls("memory_unmap"), 1u);
    ASSERT_TRUE(is_ok(run_copy(mover, memory, host.address(2 * kLength), kLength)));
    EXPECT_EQ(Counters(card()).calls("host_memory_map"), after.calls("host_memory_map")) << "the last one is mapped";
}

TEST_F(HostCacheTest, forget_inside_an_allocation_counts_at_the_next_find) {
    HostCache::get().enable();
    const auto before = find(kFake, 1);
    set_allocation_callback([] { forget(0, UINT64_MAX); });
    const auto meanwhile = find(kFake + 10 * kPageSize, 1); // allocates, and so forgets its own memory
    set_allocation_callback(nullptr);
    EXPECT_NE(meanwhile, nullptr);
    EXPECT_NE(find(kFake, 1), before);
    EXPECT_EQ(before.use_count(), 1);
}

TEST_F(HostCacheTest, forgotten_range_stays_mapped_until_its_copy_ends) {
    set("SOFTGAUDI_PACE", "down:1"); // 16 ms for the copy below
    HostCache::get().enable();
    Mover mover(cards());
    const HostBuffer host(16 * kMiB);
    const Bytes sent = pattern(host.size(), 1);
    host.write(0, sent);
    const std::uint64_t memory = value(allocate(card(), {.length = host.size()}));
    value(start_engine(card()));
    const std::uint64_t unmapped = Counters(card()).calls("memory_unmap");
    Tally tally;
    ASSERT_EQ(mover.post({memory, host.address(), host.size(), nullptr, Tally::count, &tally}), Mover::Posted::started);
    forget(host.address(), host.size());
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), unmapped);
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(tally.ended, 1u);
    EXPECT_EQ(tally.failed, 0u) << tally.problem;
    find(kFake, 1); // reads the note
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), unmapped + 1);
    EXPECT_TRUE(Window(*find_region(memory)).read(memory, sent.size()) == sent);
}

TEST_F(HostCacheTest, memory_mapped_again_at_the_same_address_is_pinned_again) {
    HostCache::get().enable();
    Mover mover(cards());
    const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
    const Window window(*find_region(memory));
    void *const place = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(place, MAP_FAILED);
    for (unsigned round = 0; round < 10; ++round) {
        const Bytes sent = pattern(100'000, round);
        std::memcpy(place, sent.data(), sent.size());
        ASSERT_TRUE(is_ok(run_copy(mover, memory, reinterpret_cast<std::uint64_t>(place), sent.size())));
        ASSERT_TRUE(window.read(memory, sent.size()) == sent);
        forget(reinterpret_cast<std::uint64_t>(place), kMiB);
        ASSERT_EQ(mmap(place, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), place);
    }
    munmap(place, kMiB);
}

TEST_F(HostCacheTest, threads_find_and_forget_concurrently) {
    HostCache::get().enable();
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            Random random(t);
            for (int i = 0; i < 5'000; ++i) {
                const std::uint64_t address = kFake + random.below(2000) * kPageSize + random.below(kPageSize);
                const std::uint64_t length = random.size(0, 17);
                if (random.one_in(4)) {
                    forget(address, length);
                } else if (const auto range = find(address, length); !range || !range->contains(address, length)) {
                    ++wrong;
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong.load(), 0u);
}

} // namespace
