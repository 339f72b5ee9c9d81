// SPDX-License-Identifier: BSD-3-Clause
// SynapseAI holds its lock while it closes a card. Another thread may hold a lock of the product and wait for SynapseAI's
// lock at that time: the two must not deadlock.
#include "synapse_fixture.h"

#include "gaudi/copy/mover.h"
#include "gaudi/engine_user.h"

#include <atomic>
#include <thread>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class FrameworkRelease : public SynapseTest {
protected:
    /// Releases the card and runs `use`, which calls SynapseAI, while the release holds SynapseAI's lock.
    template <class Use>
    void release_during(Use &&use) {
        m_waiting = find_function<standin::standin_waiting>("standin_waiting");
        find_function<standin::standin_at_close>("standin_at_close")(
            [](void *user) {
                auto &self = *static_cast<FrameworkRelease *>(user);
                self.m_closing = true;
                EXPECT_TRUE(until([&] { return self.m_waiting() != 0; })) << "no thread waits for SynapseAI's lock";
                card().before_close(self.m_fd);
            },
            this);
        m_fd = Synapse::loaded()->descriptor();
        std::thread releasing([&] { release(); });
        EXPECT_TRUE(until([&] { return m_closing.load(); }));
        use();
        releasing.join();
        card().after_close(m_fd);
        find_function<standin::standin_at_close>("standin_at_close")(nullptr, nullptr);
        EXPECT_FALSE(is_adopted(card()));
    }
    void expect_copy_in_next_session() {
        acquire();
        Mover mover(cards());
        EXPECT_TRUE(is_ok(mover.copy_now(allocate(kMiB), m_host.address(), kMiB)));
    }
    const HostBuffer m_host{4 * kMiB};

private:
    standin::standin_waiting *m_waiting = nullptr;
    std::atomic<bool> m_closing{false};
    int m_fd = -1;
};

TEST_F(FrameworkRelease, completes_while_a_thread_polls_a_copy) {
    acquire();
    const std::uint64_t address = allocate(kMiB);
    Mover mover(cards());
    HostRange range(m_host.address(), m_host.size(), cards().all().size());
    Tally tally;
    ASSERT_EQ(mover.post({m_host.address(), address, kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    release_during([&] { mover.progress(); });
    EXPECT_TRUE(until([&] {
        mover.progress();
        return mover.outstanding() == 0;
    }));
    EXPECT_EQ(tally.failed, 1u);
    expect_copy_in_next_session();
}

TEST_F(FrameworkRelease, refused_while_a_thread_polls_and_accepted_after) {
    acquire();
    const std::uint64_t address = allocate(kMiB);
    Mover mover(cards());
    Tally tally;
    ASSERT_EQ(mover.post({m_host.address(), address, kMiB, nullptr, Tally::count, &tally}), Mover::Posted::started);
    struct Hold {
        std::atomic<bool> inside{false}, released{false};
    } hold;
    const auto in_call = find_function<standin::standin_in_call>("standin_in_call");
    in_call(
        [](void *user) {
            auto &held = *static_cast<Hold *>(user);
            held.inside = true;
            until([&] { return held.released.load(); });
        },
        &hold);
    std::thread polling([&] {
        until([&] {
            mover.progress();
            return mover.outstanding() == 0;
        });
    });
    ASSERT_TRUE(until([&] { return hold.inside.load(); }));
    const auto release_once = [&] { return find_function<vendor::synDeviceRelease>("synDeviceRelease")(0); };
    EXPECT_EQ(release_once(), vendor::synFail);
    in_call(nullptr, nullptr);
    hold.released = true;
    polling.join();
    EXPECT_EQ(tally.ended, 1u);
    EXPECT_EQ(tally.failed, 0u) << "a release that SynapseAI refused ended the session";
    release();
}

TEST_F(FrameworkRelease, is_not_kept_off_by_waiting_for_copies) {
    set("SOFTGAUDI_PACE", "up:0.004"); // a second: a copy takes longer than very many tries of a release
    acquire();
    const std::uint64_t address = allocate(4 * kMiB);
    Mover mover(cards());
    Tally tally;
    ASSERT_EQ(mover.post({m_host.address(), address, 4 * kMiB, nullptr, Tally::count, &tally}), Mover::Posted::started);
    std::atomic<unsigned> calls{0};
    const auto in_call = find_function<standin::standin_in_call>("standin_in_call");
    in_call([](void *user) { ++*static_cast<std::atomic<unsigned> *>(user); }, &calls);
    started_engine(card())->arm(); // a thread waits for the copies
    ASSERT_TRUE(until([&] { return calls >= 3; }));
    in_call(nullptr, nullptr);
    const int fd = Synapse::loaded()->descriptor();
    find_function<standin::standin_at_close>("standin_at_close")(
        [](void *user) { card().before_close(*static_cast<int *>(user)); }, const_cast<int *>(&fd));
    const auto release_once = find_function<vendor::synDeviceRelease>("synDeviceRelease");
    ASSERT_TRUE(until([&] { return release_once(0) == vendor::synSuccess; }));
    forget_card();
    card().after_close(fd);
    EXPECT_TRUE(until([&] {
        mover.progress();
        return mover.outstanding() == 0;
    }));
    EXPECT_EQ(tally.ended, 1u);
    EXPECT_EQ(tally.failed, 1u) << "the release came only after the copy";
}

TEST_F(FrameworkRelease, completes_while_a_thread_starts_an_engine) {
    acquire();
    const std::uint64_t address = allocate(kMiB);
    ASSERT_NE(look_up(address), nullptr);
    Mover mover(cards());
    release_during([&] { EXPECT_FALSE(mover.copy_now(address, m_host.address(), kMiB)); });
    EXPECT_EQ(started_engine(card()), nullptr);
    expect_copy_in_next_session();
}

TEST_F(FrameworkRelease, completes_while_a_thread_maps_host_memory) {
    acquire();
    const std::uint64_t address = allocate(kMiB);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(address, m_host.address(), kMiB)));
    // The range is mapped on another card, so the close of this one finds it in the list of host ranges.
    HostRange range(m_host.address(), m_host.size(), cards().all().size(), HostRange::Residency::evictable);
    Tally tally;
    const std::uint64_t on_other_card = value(gaudi::allocate(card(1), {.length = kMiB}));
    ASSERT_EQ(mover.post({m_host.address(), on_other_card, kMiB, &range, Tally::count, &tally}),
              Mover::Posted::started);
    const auto finish = [&] {
        return until([&] {
            mover.progress();
            return mover.outstanding() == 0;
        });
    };
    ASSERT_TRUE(finish());
    const std::uint64_t mapped = Counters(card(1)).calls("host_memory_map");
    release_during([&] { (void)mover.post({m_host.address(), address, kMiB, &range, Tally::count, &tally}); });
    EXPECT_TRUE(finish());
    EXPECT_EQ(tally.ended - tally.failed, 1u) << "the copy on the other card";
    expect_copy_in_next_session();
    ASSERT_EQ(mover.post({m_host.address(), on_other_card, kMiB, &range, Tally::count, &tally}),
              Mover::Posted::started);
    EXPECT_TRUE(finish());
    EXPECT_EQ(tally.ended - tally.failed, 2u);
    EXPECT_EQ(Counters(card(1)).calls("host_memory_map"), mapped) << "the other card still has the range mapped";
}

} // namespace
