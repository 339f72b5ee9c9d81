// SPDX-License-Identifier: BSD-3-Clause
// Mappings kept for memory that nobody registered: found again, dropped when the memory goes, bounded in number.
#include "allocation_news.h"
#include "engine.h"

#include "gaudi/mover.h"

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

TEST_F(HostCacheTest, it_is_off_until_news_of_memory_come) {
    EXPECT_FALSE(HostCache::get().enabled());
    EXPECT_EQ(find(kFake, 100), nullptr);
    forget(kFake, 100);
    HostCache::get().enable();
    EXPECT_NE(find(kFake, 100), nullptr);
}

TEST_F(HostCacheTest, what_lies_inside_a_range_finds_it) {
    HostCache::get().enable();
    const auto range = find(kFake + 100, 3 * kPageSize);
    EXPECT_EQ(range->address(), kFake) << "whole pages";
    EXPECT_EQ(range->length(), 4 * kPageSize);
    EXPECT_EQ(find(kFake + 100, 3 * kPageSize), range);
    EXPECT_EQ(find(kFake, 1), range);
    EXPECT_EQ(find(kFake + 4 * kPageSize - 1, 1), range);
    EXPECT_NE(find(kFake + 4 * kPageSize, 1), range);
    EXPECT_NE(find(kFake - 1, 1), range);
    EXPECT_EQ(find(kFake + 5, 5), range) << "neighbours do not disturb it";
}

TEST_F(HostCacheTest, what_is_hardly_worth_it_is_kept_from_the_second_time_on) {
    HostCache::get().enable();
    const auto find_if_worth = [](std::uint64_t address, std::uint64_t length) {
        return HostCache::get().find(address, length, 8, 100'000);
    };
    EXPECT_EQ(find_if_worth(kFake, 50'000), nullptr);
    EXPECT_EQ(find_if_worth(kFake + 65536, 50'000), nullptr) << "another one";
    EXPECT_NE(find_if_worth(kFake, 50'000), nullptr);
    EXPECT_NE(find_if_worth(kFake, 50'000), nullptr);
    EXPECT_NE(find_if_worth(2 * kFake, 100'000), nullptr) << "long enough";
}

TEST_F(HostCacheTest, a_range_that_overlaps_takes_the_place_of_the_old_ones) {
    HostCache::get().enable();
    const auto first = find(kFake, kPageSize), second = find(kFake + 2 * kPageSize, kPageSize);
    const auto both = find(kFake, 3 * kPageSize);
    EXPECT_EQ(find(kFake, 10), both);
    EXPECT_EQ(find(kFake + 2 * kPageSize, 10), both);
    EXPECT_NE(both, first);
    EXPECT_EQ(first.use_count(), 1) << "the cache has let go";
    EXPECT_EQ(second.use_count(), 1);
}

TEST_F(HostCacheTest, what_is_forgotten_is_not_found) {
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
    EXPECT_EQ(find(kFake, 1), range) << "memory beside it does not count";
}

TEST_F(HostCacheTest, the_least_recently_used_leaves_first) {
    HostCache::get().enable();
    const std::weak_ptr<HostRange> first = find(kFake, 1), second = find(kFake + 2 * kPageSize, 1);
    for (std::uint64_t i = 2; i < 512; ++i)
        find(kFake + i * 2 * kPageSize, 1);
    EXPECT_FALSE(first.expired()) << "512 have room";
    find(kFake, 1);
    find(kFake + 512 * 2 * kPageSize, 1);
    EXPECT_FALSE(first.expired()) << "it was used again";
    EXPECT_TRUE(second.expired());
}

TEST_F(HostCacheTest, the_bytes_it_may_pin_are_bounded) {
    HostCache::get().enable();
    const std::weak_ptr<HostRange> first = find(kFake, 5 * kGiB);
    EXPECT_FALSE(first.expired());
    const std::weak_ptr<HostRange> second = find(kFake + 100 * kGiB, 5 * kGiB);
    EXPECT_TRUE(first.expired());
    EXPECT_FALSE(second.expired());
}

TEST_F(HostCacheTest, news_from_inside_an_allocation_are_heeded_by_the_next_who_asks) {
    HostCache::get().enable();
    const auto before = find(kFake, 1);
    at_allocations([] { forget(0, UINT64_MAX); });
    const auto meanwhile = find(kFake + 10 * kPageSize, 1); // allocates, and so hears of its own memory
    at_allocations(nullptr);
    EXPECT_NE(meanwhile, nullptr);
    EXPECT_NE(find(kFake, 1), before);
    EXPECT_EQ(before.use_count(), 1);
}

TEST_F(HostCacheTest, a_forgotten_range_stays_mapped_until_the_copy_that_uses_it_has_ended) {
    set("SOFTGAUDI_PACE", "down:1"); // 16 ms for the copy below
    HostCache::get().enable();
    Mover mover(cards());
    const HostMemory host(16 * kMiB);
    const Bytes sent = pattern(host.size(), 1);
    host.write(0, sent);
    const std::uint64_t memory = value(card().arena().allocate({.length = host.size()}));
    value(card().copier());
    const std::uint64_t unmapped = Counters(card()).calls("memory_unmap");
    int error = -1;
    ASSERT_EQ(mover.post({memory, host.address(), host.size(), nullptr,
                          [](void *user, int result) { *static_cast<int *>(user) = result; }, &error}),
              Mover::Posted::started);
    forget(host.address(), host.size());
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), unmapped);
    ASSERT_TRUE(until([&] {
        mover.progress();
        return error >= 0;
    }));
    EXPECT_EQ(error, 0);
    find(kFake, 1); // the note is read at the next look
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), unmapped + 1);
    EXPECT_TRUE(Window(*cards().find(memory)).read(memory, sent.size()) == sent);
}

TEST_F(HostCacheTest, memory_that_went_away_and_came_back_is_mapped_anew) {
    HostCache::get().enable();
    Mover mover(cards());
    const std::uint64_t memory = value(card().arena().allocate({.length = kMiB}));
    const Window window(*cards().find(memory));
    void *const place = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(place, MAP_FAILED);
    for (unsigned round = 0; round < 10; ++round) {
        const Bytes sent = pattern(100'000, round);
        std::memcpy(place, sent.data(), sent.size());
        bool over = false;
        ASSERT_EQ(mover.post({memory, reinterpret_cast<std::uint64_t>(place), sent.size(), nullptr,
                              [](void *user, int error) { *static_cast<bool *>(user) = error == 0; }, &over}),
                  Mover::Posted::started);
        ASSERT_TRUE(until([&] {
            mover.progress();
            return over;
        }));
        ASSERT_TRUE(window.read(memory, sent.size()) == sent);
        forget(reinterpret_cast<std::uint64_t>(place), kMiB);
        ASSERT_EQ(mmap(place, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), place);
    }
    munmap(place, kMiB);
}

TEST_F(HostCacheTest, threads_find_and_forget_at_once) {
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
