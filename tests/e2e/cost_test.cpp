// SPDX-License-Identifier: BSD-3-Clause
// The cost of a put from card to card memory of two processes, against a put from host to host memory and against staging.
// Counts and times on the virtual clock do not depend on the machine.
#include "conversation.h"
#include "fabric.h"
#include "read_counters.h"

#include <algorithm>
#include <list>
#include <utility>

using namespace e2e;

namespace {

class Cost : public FabricTest {
protected:
    /// What one put moves after a first one has warmed up both sides. UCX's keepalive may come between, so the cheapest of
    /// three puts counts.
    static Moved measure_put(Side &side, bool first, Memory &memory, std::size_t size) {
        exchange(side, first, Operation::put, memory, size, true);
        std::vector<Moved> puts;
        for (unsigned i = 0; i < 3; ++i) {
            std::vector<Moved> looks;
            exchange(side, first, Operation::put, memory, size, true, [&] { looks.push_back(read_counters()); });
            puts.push_back(first ? looks.at(1) - looks.at(0) : Moved{});
        }
        return *std::ranges::min_element(puts, {},
                                         [](const Moved &one) { return std::pair(one.clock_ns, one.requests); });
    }
};

#ifndef __SANITIZE_THREAD__ // under TSan UCX runs without its memory hooks and caches no registrations
TEST_F(Cost, put_from_card_takes_as_much_work_as_from_host) {
    run_pair([](Side &side, bool first) {
        constexpr std::size_t kLargest = 16 << 20;
        side.flush(side.peer()); // UCX registers memory of its own while it connects
        side.meet();
        std::list<Memory> kept; // memory that was freed and allocated again would still be registered
        const auto count_map = [&](ucs_memory_type_t type) {
            const Moved before = read_counters();
            side.meet();
            kept.emplace_back(side, type, kLargest);
            side.meet();
            const Moved both = read_counters() - before;
            side.meet();
            return both;
        };
        count_map(UCS_MEMORY_TYPE_GAUDI); // the first of each type also registers internal memory of UCX
        count_map(UCS_MEMORY_TYPE_HOST);
        const Moved of_gaudi = count_map(UCS_MEMORY_TYPE_GAUDI);
        Memory &gaudi = kept.back();
        const Moved of_host = count_map(UCS_MEMORY_TYPE_HOST);
        Memory &host = kept.back();
        EXPECT_GT(of_host.host_registrations, 0u);
        EXPECT_EQ(of_gaudi.registrations, of_host.host_registrations);
        EXPECT_EQ(of_gaudi.host_registrations, 0u);
        // Puts of less host memory are inlined into the request.
        for (const std::size_t size : {std::size_t{4096}, std::size_t{65536}, std::size_t{1 << 20}, kLargest}) {
            const Moved cards = measure_put(side, first, gaudi, size), hosts = measure_put(side, first, host, size);
            if (!first)
                continue;
            EXPECT_EQ(cards.requests, hosts.requests) << size;
            EXPECT_EQ(cards.direct + cards.through, hosts.direct + hosts.through) << size;
            EXPECT_GE(cards.direct, 2 * size) << size;
            EXPECT_EQ(cards.staged(), 0u) << size;
            EXPECT_EQ(cards.registrations + cards.host_registrations, 0u) << size;
            EXPECT_EQ(hosts.registrations + hosts.host_registrations, 0u) << size;
        }
    });
}
#endif

TEST_F(Cost, zero_copy_beats_staging_from_4_kib) {
    // As on a Gaudi2 server: PCIe gen 4 x16 per card, 200 Gb/s per HCA.
    set("SOFTGAUDI_PACE", "virtual:down:25,up:25,submit:5,map:20");
    set("SOFTHCA_PACE", "virtual:link:25,latency:2");
    run_pair([](Side &direct, bool first) {
        set("UCX_IB_GPU_DIRECT_RDMA", "n");
        Side staged(direct.pipe(), {});
        constexpr std::size_t kLargest = 4 << 20;
        Memory one(direct, UCS_MEMORY_TYPE_GAUDI, kLargest), other(staged, UCS_MEMORY_TYPE_GAUDI, kLargest);
        for (std::size_t size = 4096; size <= kLargest; size *= 4) {
            const Moved zero_copy = measure_put(direct, first, one, size);
            const Moved through_host = measure_put(staged, first, other, size);
            if (!first)
                continue;
            EXPECT_EQ(zero_copy.staged(), 0u) << size;
            EXPECT_GE(through_host.staged(), 2 * size) << size;
            EXPECT_LT(zero_copy.clock_ns, through_host.clock_ns) << size;
        }
    });
}

} // namespace
