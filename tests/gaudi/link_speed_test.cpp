// SPDX-License-Identifier: BSD-3-Clause
// How near copies come to the links, on the virtual clock: what the host does counts zero there, and what must wait for
// something else does not. None of it depends on the machine.
#include "device_time.h"
#include "engine.h"

#include "gaudi/host_cache.h"
#include "gaudi/mover.h"

namespace {

using namespace gaudi;
using namespace gaudi::test;

constexpr double kLink = 25; // GB/s each way, and so bytes per nanosecond

class LinkSpeed : public GaudiTest {
protected:
    LinkSpeed() {
        set("SOFTGAUDI_PACE", "virtual:down:25,up:25,card:1000,submit:5,map:20");
        HostCache::get().enable();
    }
    static std::uint64_t device(std::uint64_t length, std::size_t index = 0) {
        return value(card(index).arena().allocate({.length = length}));
    }
    static std::uint64_t now() { return device_time(value(card().open())); }

    /// Nanoseconds until everything that `post` posts has ended.
    double time(const std::function<void()> &post) {
        const std::uint64_t before = now();
        post();
        EXPECT_TRUE(until([&] {
            m_mover->progress();
            return m_mover->outstanding() == 0;
        }));
        EXPECT_EQ(m_tally.failed, 0u);
        return static_cast<double>(now() - before);
    }
    void copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range = nullptr) {
        if (!m_mover)
            m_mover.emplace(cards());
        ASSERT_EQ(m_mover->post({destination, source, length, range, Tally::count, &m_tally}), Mover::Posted::started);
    }
    /// Opens the cards and makes what is made once.
    void warm_up(std::uint64_t memory, const HostMemory &host, HostRange &range) {
        time([&] {
            copy(memory, host.address(), kMiB, &range);
            copy(host.address(kMiB), memory, kMiB, &range);
        });
    }

    std::optional<Mover> m_mover;
    Tally m_tally;
};

TEST_F(LinkSpeed, one_direction_takes_what_its_link_takes) {
    const HostMemory host(64 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device(64 * kMiB);
    warm_up(memory, host, range);
    const double link = 64 * kMiB / kLink;
    EXPECT_GE(link / time([&] { copy(memory, host.address(), 64 * kMiB, &range); }), 0.99);
    EXPECT_GE(link / time([&] { copy(host.address(), memory, 64 * kMiB, &range); }), 0.99);
}

TEST_F(LinkSpeed, both_directions_at_once_are_almost_twice_as_much) {
    const HostMemory host(128 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t one = device(64 * kMiB), other = device(64 * kMiB);
    warm_up(one, host, range);
    const double alone = time([&] { copy(one, host.address(), 64 * kMiB, &range); });
    const double both = time([&] {
        copy(one, host.address(), 64 * kMiB, &range);
        copy(host.address(64 * kMiB), other, 64 * kMiB, &range);
    });
    EXPECT_GE(2 * alone / both, 1.9);
}

TEST_F(LinkSpeed, one_card_to_another_keeps_the_slower_link_busy) {
    set("SOFTGAUDI_PACE", "virtual:down:20,up:25,card:1000,submit:5,map:20");
    const HostMemory host(2 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t one = device(64 * kMiB, 0), other = device(64 * kMiB, 1);
    warm_up(one, host, range);
    warm_up(other, host, range);
    time([&] { copy(other, one, kMiB); }); // sets up what it is staged in
    for (const std::uint64_t size : {16 * kMiB, 64 * kMiB})
        EXPECT_GE(static_cast<double>(size) / 20 / time([&] { copy(other, one, size); }), 0.95) << size;
}

TEST_F(LinkSpeed, memory_that_nobody_registered_is_hardly_slower) {
    const HostMemory host(64 * kMiB);
    const HostMemory unknown(64 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device(64 * kMiB);
    warm_up(memory, host, range);
    const double registered = time([&] { copy(memory, host.address(), 64 * kMiB, &range); });
    EXPECT_GE(registered / time([&] { copy(memory, unknown.address(), 64 * kMiB); }), 0.95) << "the first time";
    EXPECT_GE(registered / time([&] { copy(memory, unknown.address(), 64 * kMiB); }), 0.95);
    EXPECT_GE(registered / time([&] { copy(unknown.address(), memory, 64 * kMiB); }), 0.95);
}

TEST_F(LinkSpeed, memory_that_cannot_be_mapped_is_staged_at_almost_the_same_speed) {
    const HostMemory host(64 * kMiB);
    const HostMemory unknown(64 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device(64 * kMiB);
    warm_up(memory, host, range);
    time([&] { copy(memory, unknown.address(), 4096); }); // sets up what it is staged in
    const double registered = time([&] { copy(memory, host.address(), 64 * kMiB, &range); });
    set("SOFTGAUDI_FAULTS", "host_memory_map=EFAULT");
    EXPECT_GE(registered / time([&] { copy(memory, unknown.address(), 64 * kMiB); }), 0.95);
    EXPECT_GE(registered / time([&] { copy(unknown.address(), memory, 64 * kMiB); }), 0.95);
}

} // namespace
