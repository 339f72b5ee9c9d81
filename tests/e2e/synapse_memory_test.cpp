// SPDX-License-Identifier: BSD-3-Clause
// Memory that UCX itself allocates on a card that SynapseAI holds: SynapseAI's allocator gives it, or refuses.
#include "conversation.h"
#include "owner.h"
#include "printed.h"
#include "soft/soft.h"
#include "synapse_program.h"

#include <gmock/gmock.h>

#include <memory>

using namespace e2e;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

class SynapseFragments : public ::testing::Test {
protected:
    SynapseFragments() {
        set("UCX_TLS", "rc_v,gaudi_cpy");
        set("UCX_PROTO_INFO", "y");
        set("UCX_RNDV_SCHEME", "get_ppln"); // by default UCX chooses zero copy
        // The settings in docs/performance.md.
        set("UCX_RNDV_FRAG_MEM_TYPES", "host,gaudi");
        set("UCX_RNDV_FRAG_SIZE", "host:512K,gaudi:4M");
        set("UCX_RNDV_FRAG_ALLOC_COUNT", "host:128,gaudi:8");
    }
    static void set(const char *variable, const char *value) { setenv(variable, value, 1); }

    /// One message between memory of two programs, in UCX's pipeline.
    void exchange() {
        Options options;
        options.before = [this](bool first) {
            m_program = std::make_unique<SynapseProgram>(first ? 0 : 1);
            m_address = m_program->allocate(SynapseProgram::kSize);
            if (m_left != UINT64_MAX)
                m_program->allocate_all_but(m_left);
        };
        run_pair([this](Side &side, bool first) { m_program->exchange(side, first, m_address, 7); }, options);
    }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"}, m_fabric{"SOFTHCA_DIR", "softhca"};
    Printed m_printed;
    std::unique_ptr<SynapseProgram> m_program;
    std::uint64_t m_address = 0;
    std::uint64_t m_left = UINT64_MAX; // bytes of the framework's pool that UCX finds free
};

TEST_F(SynapseFragments, are_of_host_memory_beside_the_framework) {
    exchange();
    EXPECT_THAT(m_printed.text(), HasSubstr("frag host"));
    EXPECT_THAT(m_printed.text(), Not(HasSubstr("frag gaudi")));
}

TEST_F(SynapseFragments, need_no_memory_of_an_exhausted_framework) {
    m_left = 64 << 10; // enough for the byte by which UCX looks for an allocator, and too little for its fragments
    exchange();
    EXPECT_THAT(m_printed.text(), HasSubstr("frag host"));
}

/// UCX opened the card before the framework does.
class SynapseHandOver : public ::testing::Test {
protected:
    /// Each side's card, for UCX too.
    static void choose_card(bool first) { setenv("HLS_MODULE_ID", first ? "0" : "1", 1); }
    static void use_card(Side &side, bool first, Memory &memory) {
        exchange(side, first, Operation::tag, memory, 1 << 20, true);
        side.meet();
    }
    static bool acquire(bool first) {
        return SynapseProgram::acquire(SynapseProgram::load(), first ? 0 : 1) == gaudi::vendor::synSuccess;
    }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"}, m_fabric{"SOFTHCA_DIR", "softhca"};
    Options m_options{.before = choose_card};
};

TEST_F(SynapseHandOver, gives_the_framework_all_memory_and_ucx_adopts_the_card) {
    setenv("UCX_TLS", "tcp,gaudi_cpy", 1);
    run_pair(
        [](Side &side, bool first) {
            {
                Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20);
                use_card(side, first, memory);
            }
            SynapseProgram program(first ? 0 : 1); // allocates all memory, and insists on its address
            const std::uint64_t address = program.allocate(SynapseProgram::kSize);
            program.exchange(side, first, address, 3);
            Memory beside(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20);
            use_card(side, first, beside);
        },
        m_options);
}

TEST_F(SynapseHandOver, refused_with_live_allocations_that_the_log_names) {
    setenv("UCX_TLS", "tcp,gaudi_cpy", 1);
    m_options.complaints = true;
    const Printed printed;
    run_pair(
        [](Side &side, bool first) {
            {
                Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20), other(side, UCS_MEMORY_TYPE_GAUDI, 3 << 20);
                use_card(side, first, memory);
                require(!acquire(first), "SynapseAI got a card with memory of UCX");
                use_card(side, first, memory); // UCX goes on
            }
            require(acquire(first), "SynapseAI gets no card without memory of UCX");
        },
        m_options);
    for (const char *card : {"0", "1"})
        EXPECT_THAT(printed.text(), HasSubstr("UCX has 2 allocations with 4194304 bytes on card " + std::string(card)));
    EXPECT_EQ(printed.complaints().size(), 2u) << "one sentence of each process";
}

TEST_F(SynapseHandOver, follows_the_registration_after_which_ucx_deregisters) {
    setenv("UCX_TLS", "rc_v,gaudi_cpy", 1);
    m_options.complaints = true;
    const Printed printed;
    run_pair(
        [](Side &side, bool first) {
            {
                Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20);
                use_card(side, first, memory);
            }
            require(!acquire(first), "SynapseAI got a card whose memory an HCA may write");
            trigger_deregistration(side);
            SynapseProgram program(first ? 0 : 1);
            program.exchange(side, first, program.allocate(SynapseProgram::kSize), 3);
        },
        m_options);
    EXPECT_THAT(printed.text(), HasSubstr("an RDMA device still has 1 blocks of card 0 registered"));
    EXPECT_EQ(printed.complaints().size(), 2u);
}

class SynapseAllocation : public ::testing::TestWithParam<const char *> {
protected:
    SynapseAllocation() {
        if (*GetParam())
            setenv("UCX_TLS", GetParam(), 1);
    }
    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"}, m_fabric{"SOFTHCA_DIR", "softhca"};
};

TEST_P(SynapseAllocation, by_ucx_is_exchanged) {
    std::unique_ptr<SynapseProgram> program;
    Options options;
    options.before = [&](bool first) { program = std::make_unique<SynapseProgram>(first ? 0 : 1); };
    run_pair(
        [&](Side &side, bool first) {
            {
                Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 3 << 20);
                for (const Operation operation : {Operation::tag, Operation::put, Operation::get})
                    exchange(side, first, operation, memory, (3 << 20) - 5, true);
            }
            side.meet();
            program->release();
        },
        options);
}

INSTANTIATE_TEST_SUITE_P(, SynapseAllocation, ::testing::Values("", "tcp,gaudi_cpy"), [](const auto &one) {
    return std::string(*one.param ? "tcp_and_gaudi_cpy" : "as_ucx_chooses");
});

} // namespace
