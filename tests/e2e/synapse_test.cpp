// SPDX-License-Identifier: BSD-3-Clause
// Two processes exchange memory of SynapseAI through UCX; a stand-in for SynapseAI holds all memory of their cards.
#include "conversation.h"
#include "owner.h"
#include "soft/soft.h"
#include "synapse_program.h"

#include <memory>

using namespace e2e;

namespace {

class Synapse : public ::testing::TestWithParam<const char *> {
protected:
    Synapse() {
        if (*GetParam())
            setenv("UCX_TLS", GetParam(), 1);
    }
    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"}, m_fabric{"SOFTHCA_DIR", "softhca"};
};

TEST_P(Synapse, memory_from_before_and_after_ucx_start_is_exchanged) {
    std::unique_ptr<SynapseProgram> program;
    std::uint64_t before = 0;
    Options options;
    options.before = [&](bool first) {
        program = std::make_unique<SynapseProgram>(first ? 0 : 1);
        before = program->allocate(SynapseProgram::kSize);
    };
    run_pair(
        [&](Side &side, bool first) {
            const std::uint64_t after = program->allocate(3 * SynapseProgram::kSize);
            program->exchange(side, first, before, 1);
            program->exchange(side, first, after + 12345, 2);
            program->release();
        },
        options);
}

TEST_P(Synapse, memory_of_a_gaudi3_is_exchanged) {
    setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    std::unique_ptr<SynapseProgram> program;
    std::uint64_t memory = 0;
    Options options;
    options.before = [&](bool first) {
        program = std::make_unique<SynapseProgram>(first ? 0 : 1);
        memory = program->allocate(2 * SynapseProgram::kSize);
    };
    run_pair(
        [&](Side &side, bool first) {
            program->exchange(side, first, memory + 77, 1);
            program->release();
        },
        options);
}

TEST_P(Synapse, memory_of_a_gaudi3_acquired_after_ucx_start_is_exchanged) {
    setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    Options options;
    options.before = [](bool) { require(SynapseProgram::load() != nullptr, "libSynapse.so does not load"); };
    run_pair(
        [](Side &side, bool first) {
            SynapseProgram program(first ? 0 : 1);
            program.exchange(side, first, program.allocate(2 * SynapseProgram::kSize) + 77, 1);
            program.release();
        },
        options);
}

TEST_P(Synapse, memory_of_a_gaudi3_is_exchanged_by_a_framework_loaded_after_ucx_start) {
    setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    setenv("UCX_GAUDI_CPY_FRAMEWORK", "y", 1);
    run_pair([](Side &side, bool first) {
        SynapseProgram program(first ? 0 : 1);
        program.exchange(side, first, program.allocate(2 * SynapseProgram::kSize) + 77, 1);
        program.release();
    });
}

TEST_P(Synapse, memory_of_a_card_acquired_after_ucx_start_is_exchanged) {
    run_pair([&](Side &side, bool first) {
        SynapseProgram program(first ? 0 : 1);
        const std::uint64_t memory = program.allocate(2 * SynapseProgram::kSize);
        program.exchange(side, first, memory + 5, 1);
        program.release();
    });
}

class SynapseLater : public ::testing::Test {
protected:
    static std::uint64_t access(const uct_side::Domain &domain) { return domain.attributes().cap.access_mem_types; }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"};
};

TEST_F(SynapseLater, does_not_change_what_a_domain_offers) {
    setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    uct_side::Domain before;
    ASSERT_EQ(access(before), 0u);
    ASSERT_NE(SynapseProgram::load(), nullptr);
    EXPECT_EQ(access(before), 0u);
    const uct_side::Transport transport(before);
    EXPECT_EQ(transport.attributes().cap.flags, UCT_IFACE_FLAG_CONNECT_TO_IFACE) << "the domain decides";
    EXPECT_NE(access(uct_side::Domain()), 0u);
}

INSTANTIATE_TEST_SUITE_P(, Synapse, ::testing::Values("", "rc_v,gaudi_cpy", "tcp,gaudi_cpy"), [](const auto &one) {
    const std::string transports = one.param;
    return transports.empty() ? "as_ucx_chooses" : transports.substr(0, transports.find(',')) + "_and_gaudi_cpy";
});

} // namespace
