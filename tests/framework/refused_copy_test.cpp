// SPDX-License-Identifier: BSD-3-Clause
// Copies that SynapseAI refuses, and flushes that fail: each fails the copies that it concerns, and no others.
#include "synapse_fixture.h"

#include "gaudi/engine_user.h"
#include "gaudi/host/bounce_ring.h"

#include <gmock/gmock.h>

#include <deque>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr std::uint64_t kPiece = 64 * kKiB;

/// Posts copies to the engine itself, so that several make one batch, from host memory that SynapseAI has mapped.
class RefusedCopy : public SynapseTest {
protected:
    struct Posted {
        bool ended = false;
        std::string problem;
    };

    /// Starts the engine, with host memory mapped for it and as much device memory.
    void start(unsigned pieces) {
        acquire();
        m_device = allocate(pieces * kPiece);
        m_region = look_up(m_device);
        m_session = &m_region->session();
        m_engine = value(m_session->get<EngineSlot>().start());
        ASSERT_STREQ(m_engine->name(), "synapse");
        ASSERT_TRUE(m_ring.set_up(cards().all().size()));
        const unsigned slice = m_ring.take(pieces * kPiece).value();
        m_host = value(m_ring.map(*m_session, slice));
        ASSERT_EQ(m_host, reinterpret_cast<std::uint64_t>(m_ring.memory(slice))) << "SynapseAI uses host addresses";
    }
    void post(Direction direction, std::uint64_t destination, std::uint64_t source, bool flush = false) {
        Transfer *transfer = m_channel.take();
        transfer->source = source;
        transfer->destination = destination;
        transfer->length = kPiece;
        transfer->flush = flush;
        transfer->user = &m_posted.emplace_back();
        transfer->done = [](Transfer &ended) {
            *static_cast<Posted *>(ended.user) = {true, ended.failure ? ended.failure->text : ""};
        };
        m_engine->post(direction, *transfer);
    }
    void down(unsigned piece) { post(Direction::down, m_device + piece * kPiece, m_host + piece * kPiece); }
    void up(unsigned piece, bool flush) {
        post(Direction::up, m_host + piece * kPiece, m_device + piece * kPiece, flush);
    }
    bool finish() {
        return until([this] {
            m_engine->progress();
            m_channel.dispatch();
            return m_channel.outstanding() == 0;
        });
    }
    Bytes fill(unsigned piece, unsigned char seed) const {
        const Bytes bytes = pattern(kPiece, seed);
        std::memcpy(reinterpret_cast<void *>(m_host + piece * kPiece), bytes.data(), kPiece);
        return bytes;
    }
    Bytes on_card(unsigned piece) const { return Window(*m_region).read(m_device + piece * kPiece, kPiece); }
    const std::string &problem(std::size_t copy) const { return m_posted.at(copy).problem; }

    BounceRing m_ring;
    Channel m_channel;
    std::shared_ptr<Engine> m_engine;
    Region *m_region = nullptr;
    Session *m_session = nullptr;
    std::uint64_t m_device = 0, m_host = 0;
    std::deque<Posted> m_posted;
};

TEST_F(RefusedCopy, unmapped_memory_fails_its_copy_and_no_other_of_the_batch) {
    start(4);
    const HostBuffer unmapped(kPiece);
    std::vector<Bytes> sent;
    for (unsigned piece = 0; piece < 4; ++piece)
        sent.push_back(fill(piece, static_cast<unsigned char>(piece + 1)));
    down(0); // keeps the stream busy, so that the others make one batch
    down(1);
    post(Direction::down, m_device, unmapped.address());
    down(2);
    post(Direction::down, m_device, unmapped.address());
    down(3);
    ASSERT_TRUE(finish());
    for (const std::size_t good : {0u, 1u, 3u, 5u})
        EXPECT_THAT(problem(good), IsEmpty()) << good;
    for (const std::size_t refused : {2u, 4u})
        EXPECT_THAT(problem(refused), HasSubstr("SynapseAI returned synMappingNotFound")) << refused;
    for (unsigned piece = 0; piece < 4; ++piece)
        EXPECT_TRUE(on_card(piece) == sent[piece]) << piece;
    EXPECT_FALSE(m_engine->failed());
    EXPECT_TRUE(m_session->usable());
}

TEST_F(RefusedCopy, invalid_argument_fails_its_copies_only) {
    start(2);
    set("STANDIN_FAULT", "synMemCopyAsync:" + std::to_string(vendor::synInvalidArgument));
    down(0);
    down(1);
    ASSERT_TRUE(finish());
    EXPECT_THAT(problem(0), HasSubstr("synInvalidArgument"));
    EXPECT_THAT(problem(1), HasSubstr("synInvalidArgument"));
    EXPECT_FALSE(m_engine->failed());
    unsetenv("STANDIN_FAULT");
    down(1);
    ASSERT_TRUE(finish());
    EXPECT_THAT(problem(2), IsEmpty());
}

TEST_F(RefusedCopy, shortage_is_waited_for) {
    start(3);
    const Bytes sent = fill(2, 9);
    set("STANDIN_FAULT", "synMemCopyAsync:" + std::to_string(vendor::synOutOfResources));
    down(2);
    m_engine->progress();
    EXPECT_EQ(m_channel.dispatch(), 0u);
    set("STANDIN_FAULT", "synEventRecord:" + std::to_string(vendor::synOutOfResources)); // the copy itself is started
    m_engine->progress();
    EXPECT_EQ(m_channel.dispatch(), 0u);
    unsetenv("STANDIN_FAULT");
    ASSERT_TRUE(finish());
    EXPECT_THAT(problem(0), IsEmpty());
    EXPECT_TRUE(on_card(2) == sent);
}

TEST_F(RefusedCopy, event_that_cannot_be_recorded_is_replaced_by_a_wait) {
    start(1);
    const Bytes sent = fill(0, 10);
    set("STANDIN_FAULT", "synEventRecord:" + std::to_string(vendor::synInvalidEventHandle));
    down(0);
    ASSERT_TRUE(finish());
    EXPECT_THAT(problem(0), IsEmpty());
    EXPECT_TRUE(on_card(0) == sent);
    EXPECT_FALSE(m_engine->failed());
}

TEST_F(RefusedCopy, failed_flush_fails_the_copies_that_need_it) {
    set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes#2=EIO"); // the first is tried with the first export
    start(3);
    down(0); // keeps the stream busy
    up(0, true);
    up(1, false);
    up(2, true);
    ASSERT_TRUE(finish());
    EXPECT_THAT(problem(0), IsEmpty());
    EXPECT_THAT(problem(1), HasSubstr("hlthunk_cs_flush_pci_hbw_writes failed with EIO"));
    EXPECT_THAT(problem(2), IsEmpty()) << "it reads memory that no NIC writes to";
    EXPECT_THAT(problem(3), HasSubstr("hlthunk_cs_flush_pci_hbw_writes failed with EIO"));
    EXPECT_FALSE(m_engine->failed());
    up(2, true);
    ASSERT_TRUE(finish());
    EXPECT_THAT(problem(4), IsEmpty()) << "the next flush succeeds";
}

TEST_F(RefusedCopy, card_without_a_flush_needs_none) {
    set("SOFTGAUDI_FAULTS", "cs_flush_pci_hbw_writes=EOPNOTSUPP");
    start(1);
    up(0, true);
    ASSERT_TRUE(finish());
    EXPECT_THAT(problem(0), IsEmpty());
}

} // namespace
