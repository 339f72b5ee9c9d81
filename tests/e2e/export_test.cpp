// SPDX-License-Identifier: BSD-3-Clause
// Registration of any range of card memory: a remote write changes exactly its bytes, none beside them, and the card's
// engines see it.
#include "fabric.h"
#include "owner.h"
#include "read_counters.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <random>

using namespace e2e;

namespace {

/// Adjacent allocations in one block with their expected bytes.
class Neighbours {
public:
    Neighbours(Cards &cards, std::mt19937 &random, std::size_t count) : m_cards(cards) {
        std::uniform_int_distribution<std::size_t> sizes(1, 20'000);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t size = sizes(random);
            m_buffers.emplace_back(cards.domain(), size);
            m_expected.push_back(uct_side::pattern(size, i));
            cards.write(m_buffers.back(), m_expected.back());
        }
    }

    std::size_t count() const { return m_buffers.size(); }
    unsigned char *data(std::size_t i) const { return m_buffers[i].data(); }
    Bytes &expected(std::size_t i) { return m_expected[i]; }

    void check_all(const char *when) {
        for (std::size_t i = 0; i < count(); ++i) {
            // The engines read first: they must flush posted writes, which a read through the dma-buf does not.
            if (m_cards.read(m_buffers[i], m_expected[i].size()) != m_expected[i])
                throw Failure(std::string("the card's engines see wrong bytes ") + when);
            if (m_cards.read_dmabuf(m_buffers[i], m_expected[i].size()) != m_expected[i])
                throw Failure(std::string("wrong bytes in memory ") + when);
        }
    }

private:
    Cards &m_cards;
    std::vector<Buffer> m_buffers;
    std::vector<Bytes> m_expected;
};

/// Offset and length of a random part of [0, size), at least one byte.
std::pair<std::size_t, std::size_t> choose_part(std::mt19937 &random, std::size_t size) {
    const std::size_t begin = std::uniform_int_distribution<std::size_t>(0, size - 1)(random);
    return {begin, std::uniform_int_distribution<std::size_t>(1, size - begin)(random)};
}

/// Registers random ranges, keeps some of them, and requests writes to parts of them.
void run_owner(Side &side) {
    std::mt19937 random(20'231);
    Cards cards;
    Neighbours memory(cards, random, 8);
    std::vector<std::unique_ptr<MappedRange>> kept;
    for (unsigned round = 0; round < 150; ++round) {
        const std::size_t which = random() % memory.count();
        const auto [begin, length] = choose_part(random, memory.expected(which).size());
        auto mapped = std::make_unique<MappedRange>(side, memory.data(which) + begin, length);
        const auto [inside, amount] = choose_part(random, length);
        const Bytes bytes = uct_side::pattern(amount, 1000 + round);
        request_write(side, {mapped->key(),
                             reinterpret_cast<std::uint64_t>(memory.data(which) + begin + inside),
                             {bytes.begin(), bytes.end()}});
        std::copy(bytes.begin(), bytes.end(),
                  memory.expected(which).begin() + static_cast<std::ptrdiff_t>(begin + inside));
        memory.check_all("after a remote write");
        if (round % 3 == 0)
            kept.push_back(std::move(mapped));
    }
    kept.clear();
    end_writes(side);
}

class Export : public FabricTest {
protected:
    static void write_to_random_ranges() {
        run_pair([](Side &side, bool first) {
            if (first)
                run_owner(side);
            else
                serve_writes(side);
        });
    }
};

using RemoteWrite = Export;

TEST_F(RemoteWrite, usual_driver_changes_only_its_bytes) { write_to_random_ranges(); }

TEST_F(RemoteWrite, mainline_driver_changes_only_its_bytes) {
    set("SOFTGAUDI_QUIRKS", "mainline");
    write_to_random_ranges();
}

TEST_F(RemoteWrite, posted_writes_change_only_their_bytes) {
    set("SOFTGAUDI_QUIRKS", "posted");
    write_to_random_ranges();
}

TEST_F(RemoteWrite, read_after_posted_write_flushes_and_sees_it) {
    set("SOFTGAUDI_QUIRKS", "posted");
    run_pair([](Side &side, bool first) {
        if (!first)
            return serve_writes(side);
        Cards cards;
        const Buffer buffer(cards.domain(), 8192);
        const MappedRange mapped(side, buffer.data(), buffer.size());
        const auto count_flushes = [] { return uct_side::count_calls("cs_flush_pci_hbw_writes"); };
        for (unsigned round = 0; round < 4; ++round) {
            const Bytes bytes = uct_side::pattern(8192, round);
            request_write(side, {mapped.key(), buffer.address(), {bytes.begin(), bytes.end()}});
            const std::uint64_t before = count_flushes();
            EXPECT_EQ(cards.read(buffer, bytes.size()), bytes) << round;
            EXPECT_EQ(count_flushes(), before + 1) << round;
        }
        end_writes(side);
    });
}

TEST_F(RemoteWrite, mainline_driver_with_posted_writes_changes_only_its_bytes) {
    set("SOFTGAUDI_QUIRKS", "mainline,posted");
    write_to_random_ranges();
}

TEST_F(RemoteWrite, whole_allocation_registered_changes_only_its_bytes) {
    set("UCX_MEMTYPE_REG_WHOLE_ALLOC_TYPES", "gaudi");
    write_to_random_ranges();
}

TEST_F(RemoteWrite, without_registration_cache_changes_only_its_bytes) {
    set("UCX_RCACHE_ENABLE", "n");
    write_to_random_ranges();
}

#ifndef __SANITIZE_THREAD__ // under TSan UCX runs without its memory hooks and caches no registrations
TEST_F(Export, whole_allocation_is_registered_once) {
    set("UCX_MEMTYPE_REG_WHOLE_ALLOC_TYPES", "gaudi");
    run_pair([](Side &side, bool first) {
        if (!first)
            return;
        Cards cards;
        const Buffer buffer(cards.domain(), 1 << 20);
        const MappedRange one(side, buffer.data() + 5000, 100);
        const Moved before = read_counters();
        const MappedRange other(side, buffer.data() + 500'000, 1000);
        EXPECT_EQ((read_counters() - before).registrations, 0u);
    });
}
#endif

TEST_F(Export, hundreds_of_registrations_share_one_descriptor) {
    const rlimit few{256, 256};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    run_pair([](Side &side, bool first) {
        if (!first)
            return;
        Cards cards;
        const Buffer buffer(cards.domain(), 8 << 20);
        const Moved before = read_counters();
        std::vector<std::unique_ptr<MappedRange>> all;
        for (std::size_t i = 0; i < 600; ++i) // apart, so that UCX does not merge them
            all.push_back(std::make_unique<MappedRange>(side, buffer.data() + i * 8192, 4096));
        const Moved moved = read_counters() - before;
        EXPECT_GE(moved.registrations, 600u);
        EXPECT_LE(moved.exports, 1u);
    });
}

} // namespace
