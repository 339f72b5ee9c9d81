// SPDX-License-Identifier: BSD-3-Clause
// The shared file: table entries, queue memory, and their limits.
#include "hca.h"
#include "hca/fabric.h"
#include "hca/queue_pair.h"
#include "hca/receive_ring.h"
#include "hca/requester.h"

using namespace hca;
using softhca::Extent;
using softhca::Fabric;
using softhca::Lock;

namespace {

class FabricTest : public HcaTest {
protected:
    std::unique_ptr<Fabric> shared = Fabric::open(fabric());
};

TEST_F(FabricTest, process_beyond_the_table_is_refused) {
    ASSERT_NE(shared, nullptr);
    // As if each entry belonged to a live process.
    const softgaudi::File file(open((fabric() + "/fabric").c_str(), O_RDWR | O_CLOEXEC));
    auto &places = shared->state().processes.entries;
    for (size_t i = 0; i < places.size(); ++i) {
        places[i].id.store(1);
        ASSERT_TRUE(softgaudi::lock_byte(file.get(), softhca::kFileBytes + i));
    }
    ::testing::internal::CaptureStderr();
    int count = -1;
    ibv_free_device_list(ibv_get_device_list(&count));
    EXPECT_EQ(count, 0);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "softhca: cannot join the fabric in " + fabric() +
                                                            ": it is full; set SOFTHCA_DIR to another directory\n");
}

TEST_F(FabricTest, queue_memory_is_reused_after_release) {
    ASSERT_NE(shared, nullptr);
    const Lock lock(shared->tables());
    Extent a{}, b{}, c{};
    ASSERT_TRUE(shared->allocate(100'000, a));
    ASSERT_TRUE(shared->allocate(1, b));
    EXPECT_EQ(a.count, 4u);
    EXPECT_EQ(b.first, a.first + 4);
    std::memset(shared->memory(a), 7, 100'000);
    shared->release(a);
    EXPECT_EQ(a.count, 0u);
    ASSERT_TRUE(shared->allocate(32'768, c));
    EXPECT_EQ(c.first, 0u);
    EXPECT_EQ(shared->memory(c)[0], 0); // old contents are cleared
    EXPECT_FALSE(shared->allocate(size_t{2} << 30, a));
    EXPECT_TRUE(shared->allocate(0, a));
    shared->release(b);
    shared->release(c);
}

TEST_F(FabricTest, ring_keeps_order_across_its_end) {
    ASSERT_NE(shared, nullptr);
    softhca::ReceiveRing ring{};
    {
        const Lock lock(shared->tables());
        ring.capacity = 4;
        ring.max_sge = 2;
        ASSERT_TRUE(shared->allocate(softhca::ring_bytes(4, 2), ring.extent));
    }
    ring.head = ring.tail = UINT32_MAX - 1; // the counters wrap, too
    softhca::Receive receive{};
    EXPECT_FALSE(pop(*shared, ring, receive));
    for (uint64_t i = 0; i < 4; ++i) {
        receive.wr_id = i;
        EXPECT_TRUE(push(*shared, ring, receive));
    }
    EXPECT_FALSE(push(*shared, ring, receive));
    for (uint64_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(pop(*shared, ring, receive));
        EXPECT_EQ(receive.wr_id, i);
    }
}

TEST_F(FabricTest, timer_codes_match_the_specification) {
    EXPECT_EQ(softhca::rnr_timer_ns(0), 655'360'000u);
    EXPECT_EQ(softhca::rnr_timer_ns(1), 10'000u);
    EXPECT_EQ(softhca::rnr_timer_ns(12), 640'000u);
    EXPECT_EQ(softhca::rnr_timer_ns(31), 491'520'000u);
    EXPECT_EQ(softhca::ack_timeout_ns(14), 67'108'864u);
    EXPECT_EQ(softhca::ack_timeout_ns(0), UINT64_MAX);
}

} // namespace
