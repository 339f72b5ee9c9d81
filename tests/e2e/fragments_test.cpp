// SPDX-License-Identifier: BSD-3-Clause
// The memory type of the fragments in which UCX's pipelines stage large messages, by the protocols that UCX prints: host
// memory by default, Gaudi memory with the settings in docs/performance.md.
#include "conversation.h"
#include "fabric.h"
#include "printed.h"

#include <gmock/gmock.h>

using namespace e2e;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace {

constexpr std::size_t kSize = (9 << 20) + 5; // several fragments of either memory type

class Fragments : public FabricTest {
protected:
    Fragments() { set("UCX_PROTO_INFO", "y"); }

    /// The protocols that both sides print while Gaudi memory is sent, put and got; every byte is checked.
    std::string exchange_and_read_protocols(const char *transports) {
        set("UCX_TLS", transports);
        const std::size_t before = m_printed.text().size();
        run_pair([&](Side &side, bool first) {
            Memory memory(side, UCS_MEMORY_TYPE_GAUDI, kSize);
            for (const Operation operation : {Operation::tag, Operation::put, Operation::get})
                exchange(side, first, operation, memory, kSize, true);
        });
        return m_printed.text().substr(before);
    }
    /// The settings in docs/performance.md.
    static void set_gaudi_fragments() {
        set("UCX_RNDV_FRAG_MEM_TYPES", "host,gaudi");
        set("UCX_RNDV_FRAG_SIZE", "host:512K,gaudi:4M");
        set("UCX_RNDV_FRAG_ALLOC_COUNT", "host:128,gaudi:8");
    }

    Printed m_printed;
};

TEST_F(Fragments, default_is_zero_copy_over_rdma) {
    const std::string chosen = exchange_and_read_protocols("rc_v,gaudi_cpy");
    EXPECT_THAT(chosen, HasSubstr("rendezvous zero-copy read from remote"));
    EXPECT_THAT(chosen, Not(HasSubstr("frag gaudi")));
}

TEST_F(Fragments, default_is_host_memory_where_messages_are_staged) {
    for (const char *transports : {"tcp,gaudi_cpy", "sm,gaudi_cpy"}) {
        const std::string chosen = exchange_and_read_protocols(transports);
        EXPECT_THAT(chosen, HasSubstr("gaudi_cpy")) << transports;
        EXPECT_THAT(chosen, Not(HasSubstr("frag gaudi"))) << transports;
    }
    set("UCX_GAUDI_COPY_DMABUF", "n");
    EXPECT_THAT(exchange_and_read_protocols("rc_v,gaudi_cpy"), HasSubstr("frag host"));
    EXPECT_THAT(m_printed.text(), Not(HasSubstr("frag gaudi")));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Fragments, gaudi_memory_is_used_with_its_size_and_count) {
    set_gaudi_fragments();
    set("UCX_RNDV_SCHEME", "get_ppln"); // by default UCX chooses zero copy
    EXPECT_THAT(exchange_and_read_protocols("rc_v,gaudi_cpy"), HasSubstr("frag gaudi"));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Fragments, gaudi_memory_does_not_replace_zero_copy) {
    set_gaudi_fragments();
    const std::string chosen = exchange_and_read_protocols("rc_v,gaudi_cpy");
    EXPECT_THAT(chosen, HasSubstr("rendezvous zero-copy read from remote"));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Fragments, gaudi_memory_without_its_size_is_not_used) {
    set("UCX_RNDV_FRAG_MEM_TYPES", "host,gaudi");
    set("UCX_RNDV_SCHEME", "get_ppln");
    EXPECT_THAT(exchange_and_read_protocols("rc_v,gaudi_cpy"), Not(HasSubstr("frag gaudi")));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

} // namespace
