// SPDX-License-Identifier: BSD-3-Clause
// Which way a copy takes, what it costs, and what is refused.
#include "engine_user.h"

#include "gaudi/copy/mover.h"
#include "gaudi/host/host_cache.h"

#include <gmock/gmock.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class MoverTest : public GaudiTest {
protected:
    static std::uint64_t device(std::uint64_t length = 64 * kMiB, std::size_t index = 0) {
        return value(allocate(card(index), {.length = length}));
    }
    HostRange registered() const { return HostRange(m_host.address(), m_host.size(), cards().all().size()); }
    Mover::Operation operation(std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                               HostRange *range = nullptr) {
        return {destination, source, length, range, Tally::count, &m_tally};
    }

    const HostBuffer m_host{16 * kMiB};
    Tally m_tally;
};

TEST_F(MoverTest, copy_between_host_addresses_is_refused) {
    Mover mover(cards());
    EXPECT_EQ(code_of(mover.post(operation(m_host.address(), m_host.address(4096), 100))), ENOTSUP);
    const auto copied = mover.copy_now(m_host.address(), m_host.address(4096), 100);
    EXPECT_EQ(code_of(copied), ENOTSUP);
    EXPECT_THAT(text_of(copied), HasSubstr("neither the destination"));
    EXPECT_FALSE(card().is_open());
}

TEST_F(MoverTest, empty_copy_is_done_at_any_address) {
    Mover mover(cards());
    const std::uint64_t beyond = device(kPage) + 1000 * kPage;
    for (const std::uint64_t one : {std::uint64_t{0}, m_host.address(), beyond, ~std::uint64_t{0}})
        for (const std::uint64_t other : {std::uint64_t{0}, m_host.address(), beyond}) {
            EXPECT_EQ(mover.post(operation(one, other, 0)), Mover::Posted::done);
            EXPECT_TRUE(is_ok(mover.copy_now(one, other, 0)));
        }
}

TEST_F(MoverTest, copy_beyond_the_mapping_is_refused) {
    Mover mover(cards());
    const std::uint64_t memory = device(kPage);
    const auto refused = mover.post(operation(memory + kPage - 99, m_host.address(), 100));
    EXPECT_EQ(code_of(refused), EINVAL);
    EXPECT_THAT(text_of(refused), HasSubstr("reaches beyond the mapping"));
    EXPECT_EQ(code_of(mover.post(operation(m_host.address(), memory + kPage - 99, 100))), EINVAL);
    EXPECT_EQ(code_of(mover.copy_now(memory + kPage - 99, m_host.address(), 100)), EINVAL);
    EXPECT_EQ(mover.post(operation(memory + kPage - 99, m_host.address(), 99)), Mover::Posted::started);
    EXPECT_TRUE(finish(mover));
    EXPECT_EQ(m_tally.ended, 1u);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(MoverTest, copy_without_copy_path_is_unsupported) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    Mover mover(cards());
    const std::uint64_t memory = device(kMiB);
    const auto posted = mover.post(operation(memory, m_host.address(), 100));
    EXPECT_EQ(code_of(posted), ENOTSUP);
    EXPECT_THAT(text_of(posted), HasSubstr("takes no command submissions"));
    const auto copied = mover.copy_now(memory, m_host.address(), 100);
    EXPECT_EQ(code_of(copied), ENOTSUP);
    EXPECT_THAT(text_of(copied), HasSubstr("takes no copies"));
}

TEST_F(MoverTest, registered_memory_is_mapped_once_at_its_first_copy) {
    Mover mover(cards());
    const std::uint64_t memory = device();
    value(start_engine(card()));
    const std::uint64_t before = Counters(card()).calls("host_memory_map");
    {
        HostRange range = registered();
        EXPECT_EQ(Counters(card()).calls("host_memory_map"), before) << "a registration is recorded only";
        for (int i = 0; i < 100; ++i) {
            ASSERT_EQ(mover.post(operation(memory, m_host.address(3), kMiB, &range)), Mover::Posted::started);
            ASSERT_TRUE(finish(mover));
        }
        EXPECT_EQ(Counters(card()).calls("host_memory_map"), before + 1);
    }
    EXPECT_EQ(m_tally.failed, 0u);
    EXPECT_EQ(Counters(card()).calls("memory_unmap"), 3u) << "the self-test's two, and the range when it ends";
}

TEST_F(MoverTest, registered_memory_is_mapped_once_per_card) {
    Mover mover(cards());
    const std::uint64_t first = device(2 * kMiB, 0), second = device(2 * kMiB, 1);
    HostRange range = registered();
    for (int i = 0; i < 10; ++i)
        for (const std::uint64_t memory : {first, second})
            ASSERT_EQ(mover.post(operation(memory, m_host.address(), 2 * kMiB, &range)), Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    for (const std::size_t index : {0u, 1u})
        EXPECT_EQ(Counters(card(index)).calls("host_memory_map"), 4u) << "ring, self-test, range";
}

TEST_F(MoverTest, small_copies_down_map_registered_memory_at_the_second) {
    Mover mover(cards());
    const std::uint64_t memory = device();
    HostRange range = registered();
    const auto mapped_by = [&](std::uint64_t destination, std::uint64_t source) {
        const std::uint64_t maps = Counters(card()).calls("host_memory_map");
        EXPECT_EQ(mover.post(operation(destination, source, 5000, &range)), Mover::Posted::started);
        EXPECT_TRUE(finish(mover));
        return Counters(card()).calls("host_memory_map") - maps;
    };
    value(start_engine(card()));
    EXPECT_EQ(mapped_by(memory, m_host.address()), 1u) << "the bounce ring, in which the first copy is staged";
    EXPECT_EQ(mapped_by(memory, m_host.address()), 1u);
    EXPECT_EQ(mapped_by(memory, m_host.address()), 0u);
}

TEST_F(MoverTest, small_copy_up_maps_registered_memory_at_once) {
    Mover mover(cards());
    const std::uint64_t memory = device();
    HostRange range = registered();
    EXPECT_EQ(mover.post(operation(m_host.address(), memory, 5000, &range)), Mover::Posted::started);
    EXPECT_TRUE(finish(mover));
    EXPECT_EQ(Counters(card()).calls("host_memory_map"), 4u) << "ring, self-test, range";
}

TEST_F(MoverTest, thousand_copies_take_20_submissions_at_most) {
    Mover mover(cards());
    const std::uint64_t memory = device();
    HostRange range = registered();
    const auto engine = value(start_engine(card()));
    ASSERT_EQ(mover.post(operation(memory, m_host.address(), 2 * kMiB, &range)), Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    const std::uint64_t maps = Counters(card()).calls("host_memory_map"), submitted = engine->submissions();
    for (std::uint64_t i = 0; i < 1000; ++i)
        ASSERT_EQ(mover.post(operation(memory + i * 8192, m_host.address(i * 8192), 4096, &range)),
                  Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(m_tally.ended, 1001u);
    EXPECT_EQ(m_tally.failed, 0u);
    EXPECT_LE(engine->submissions() - submitted, 20u);
    EXPECT_EQ(Counters(card()).calls("host_memory_map"), maps);
}

TEST_F(MoverTest, copies_of_unregistered_memory_map_it_once) {
    HostCache::get().enable();
    Mover mover(cards());
    const std::uint64_t memory = device();
    // The first copy may be staged: to map memory for one copy may cost more than to copy it.
    ASSERT_EQ(mover.post(operation(memory, m_host.address(), 65536)), Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    const std::uint64_t maps = Counters(card()).calls("host_memory_map");
    for (std::uint64_t i = 1; i < 10'000; ++i) {
        ASSERT_TRUE(until([&] {
            const auto posted = mover.post(operation(memory + i % 100 * 65536, m_host.address(), 65536));
            mover.progress();
            return posted == Mover::Posted::started;
        }));
    }
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(m_tally.ended, 10'000u);
    EXPECT_EQ(m_tally.failed, 0u);
    EXPECT_LE(Counters(card()).calls("host_memory_map"), maps + 1);
}

TEST_F(MoverTest, first_copy_is_staged_where_mapping_is_slow) {
    set("SOFTGAUDI_FAULTS", "host_memory_map=delay:5000"); // microseconds, against a copy of tens
    HostCache::get().enable();
    Mover mover(cards());
    const std::uint64_t memory = device();
    EXPECT_GE(value(start_engine(card()))->worth_mapping(), 512u << 10);
    const auto mapped_by = [&](std::uint64_t offset, std::uint64_t length) {
        const std::uint64_t maps = Counters(card()).calls("host_memory_map");
        EXPECT_EQ(mover.post(operation(memory, m_host.address(offset), length)), Mover::Posted::started);
        EXPECT_TRUE(finish(mover));
        return Counters(card()).calls("host_memory_map") - maps;
    };
    EXPECT_EQ(mapped_by(0, 100'000), 1u) << "the bounce ring";
    EXPECT_EQ(mapped_by(200'000, 100'000), 0u) << "staged";
    EXPECT_EQ(mapped_by(200'000, 100'000), 1u) << "mapped at the second copy";
    EXPECT_EQ(mapped_by(200'000, 100'000), 0u);
    EXPECT_EQ(mapped_by(4 * kMiB, 2 * kMiB), 1u) << "mapping pays at once for a long copy";
}

TEST_F(MoverTest, small_copies_of_unregistered_memory_map_nothing) {
    HostCache::get().enable();
    Mover mover(cards());
    const std::uint64_t memory = device();
    ASSERT_TRUE(is_ok(mover.copy_now(memory, m_host.address(), 8)));
    const std::uint64_t maps = Counters(card()).calls("host_memory_map");
    for (std::uint64_t i = 0; i < 100; ++i)
        ASSERT_TRUE(is_ok(mover.copy_now(memory + i, m_host.address(i * 4096), 8)));
    EXPECT_EQ(Counters(card()).calls("host_memory_map"), maps);
}

TEST_F(MoverTest, memory_that_cannot_be_pinned_is_staged) {
    HostCache::get().enable();
    Mover mover(cards());
    const std::uint64_t memory = device();
    const Bytes sent = pattern(m_host.size(), 6);
    m_host.write(0, sent);
    ASSERT_EQ(mprotect(m_host.data(), m_host.size(), PROT_READ), 0); // the driver pins for writing
    HostRange range = registered();
    for (HostRange *known : {&range, static_cast<HostRange *>(nullptr)}) {
        ASSERT_EQ(mover.post(operation(memory, m_host.address(), sent.size(), known)), Mover::Posted::started);
        ASSERT_TRUE(finish(mover));
        EXPECT_FALSE(range.map(*card().session(), m_host.address()));
        EXPECT_TRUE(Window(*find_region(memory)).read(memory, sent.size()) == sent);
    }
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(MoverTest, post_is_accepted_with_20000_copies_in_flight) {
    Mover mover(cards());
    const std::uint64_t memory = device();
    HostRange range = registered();
    constexpr unsigned kCount = 20'000;
    for (std::uint64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(mover.post(operation(memory + i * 2048, m_host.address(i % 4096 * 2048), 1000, &range)),
                  Mover::Posted::started);
    ASSERT_TRUE(is_ok(mover.copy_now(memory, m_host.address(), 100)));
    EXPECT_EQ(m_tally.ended, 0u) << "a blocking copy calls no completion of others";
    ASSERT_EQ(mover.post(operation(memory, m_host.address(), 100)), Mover::Posted::started) << "a staged copy";
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(m_tally.ended, kCount + 1);
    EXPECT_EQ(m_tally.failed, 0u);
}

TEST_F(MoverTest, range_that_ends_waits_for_its_copies) {
    set("SOFTGAUDI_PACE", "down:1"); // 16 MiB take a while
    Mover mover(cards());
    const std::uint64_t memory = device();
    std::optional<HostRange> range(std::in_place, m_host.address(), m_host.size(), cards().all().size());
    ASSERT_EQ(mover.post(operation(memory, m_host.address(), m_host.size(), &*range)), Mover::Posted::started);
    range.reset();
    EXPECT_FALSE(started_engine(card())->busy()) << "nothing may be under way when the memory is unmapped";
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(m_tally.failed, 0u);
    EXPECT_EQ(Counters(card())["hard_resets"], 0u);
}

TEST_F(MoverTest, completion_may_post_the_next_copy) {
    struct Chain {
        Mover mover{cards()};
        std::uint64_t memory = device();
        std::uint64_t host = 0;
        HostRange *range = nullptr;
        unsigned left = 200;

        static void next(void *user, const Error *error) {
            auto &chain = *static_cast<Chain *>(user);
            EXPECT_EQ(error, nullptr);
            if (chain.left == 0)
                return;
            --chain.left;
            // Small copies are staged and large ones are not: either kind of completion posts the next copy.
            const std::uint64_t length = chain.left % 3 == 0 ? 100 : chain.left % 3 == 1 ? 5000 : kMiB;
            EXPECT_EQ(chain.mover.post({chain.memory, chain.host, length, chain.left % 2 == 0 ? chain.range : nullptr,
                                        next, &chain}),
                      Mover::Posted::started);
        }
    } chain;
    HostRange range = registered();
    chain.host = m_host.address();
    chain.range = &range;
    for (int i = 0; i < 4; ++i)
        Chain::next(&chain, nullptr);
    EXPECT_TRUE(finish(chain.mover));
    EXPECT_EQ(chain.left, 0u);
}

TEST_F(MoverTest, movers_of_many_threads_share_the_cards) {
    constexpr unsigned kThreads = 4, kRounds = 40;
    HostCache::get().enable();
    Cards &all = cards();
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            Mover mover(all);
            Random random(t);
            const HostBuffer host(2 * kMiB);
            HostRange range(host.address(), host.size(), all.all().size());
            const std::uint64_t first = device(kMiB, 0), second = device(kMiB, 1);
            const auto copy = [&](std::uint64_t to, std::uint64_t from, std::uint64_t length, bool known) {
                if (!run_copy(mover, to, from, length, known ? &range : nullptr) || mover.outstanding() != 0)
                    ++wrong;
            };
            for (unsigned round = 0; round < kRounds; ++round) {
                const std::uint64_t length = random.size(0, 18), at = random.below(1000);
                const Bytes sent = pattern(length, t * 1000 + round);
                host.write(at, sent);
                copy(first + at, host.address(at), length, random.one_in(2));
                copy(second + at + 5, first + at, length, false);
                copy(host.address(kMiB + at), second + at + 5, length, random.one_in(2));
                wrong += host.read(kMiB + at, length) == sent ? 0 : 1;
                wrong += mover.copy_now(second + at, host.address(at), length) ? 0 : 1;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong.load(), 0u);
}

} // namespace
