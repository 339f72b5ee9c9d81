// SPDX-License-Identifier: BSD-3-Clause
// The first cause of a staged transfer, from facts.
#include "cli/explain/cause.h"

#include "../doctor/healthy.h"

#include <gmock/gmock.h>

namespace gaudi::cli::explain {
namespace {

using doctor_test::healthy_server;
using ::testing::HasSubstr;
using ::testing::Not;

class FirstCause : public ::testing::Test {
protected:
    Cause find() const { return find_cause(transfer, evidence, facts); }
    void set(const std::string &name, const std::string &value) {
        facts.settings.push_back({name, value, "environment"});
    }

    doctor::Facts facts = healthy_server();
    Transfer transfer = *parse_transfer("gaudi:0", "remote:gaudi:1", "1M", "tag");
    Evidence evidence;
};

TEST_F(FirstCause, no_nic_comes_before_settings) {
    facts.nics.clear();
    set("UCX_IB_GPU_DIRECT_RDMA", "n");
    EXPECT_EQ(find().id, "GD060");
    EXPECT_THAT(find().fix, HasSubstr("RDMA NIC"));
    facts.thunk.software = true;
    EXPECT_THAT(find().fix, HasSubstr("ucx_gaudi run --hca"));
}

TEST_F(FirstCause, ucx_without_ib_module_uses_no_nic) {
    evidence.has_ib_module = false;
    EXPECT_THAT(find().sentence, HasSubstr("libuct_ib"));
}

TEST_F(FirstCause, nic_without_dmabufs_is_named) {
    facts.nics[0].dmabuf_errno = 524;
    set("UCX_IB_GPU_DIRECT_RDMA", "n");
    EXPECT_EQ(find().id, "GD061");
    EXPECT_THAT(find().sentence, HasSubstr("524"));
}

TEST_F(FirstCause, registration_that_ucx_saw_fail_comes_before_checks) {
    facts.nics[0].dmabuf_errno = 524;
    evidence.refused_registration = "ibv_reg_dmabuf_mr(...) failed: Operation not permitted";
    EXPECT_THAT(find().sentence, HasSubstr("Operation not permitted"));
}

TEST_F(FirstCause, setting_is_named_with_its_source) {
    set("UCX_TLS", "tcp,gaudi_cpy");
    EXPECT_EQ(find().id, "GD050");
    facts = healthy_server();
    set("UCX_IB_GPU_DIRECT_RDMA", "n");
    EXPECT_EQ(find().id, "GD055");
    EXPECT_EQ(find().fix, "unset UCX_IB_GPU_DIRECT_RDMA");
}

TEST_F(FirstCause, refused_export_is_the_modules_own_sentence) {
    evidence.refused_export = "EPERM";
    EXPECT_EQ(find().sentence, "the card's memory is not exported: EPERM");
}

TEST_F(FirstCause, size_below_the_threshold_needs_no_fix) {
    transfer.bytes = 1024;
    evidence.zero_copy_from = 8192;
    EXPECT_THAT(find().sentence, HasSubstr("1024 bytes are below the 8192"));
    EXPECT_THAT(find().fix, HasSubstr("UCX_RNDV_THRESH=1024"));
    transfer.operation = Operation::get;
    EXPECT_THAT(find().fix, Not(HasSubstr("UCX_RNDV_THRESH")));
}

TEST_F(FirstCause, unknown_cause_names_the_protocol) {
    evidence.protocol = "software emulation";
    EXPECT_THAT(find().sentence, HasSubstr("'software emulation'"));
    EXPECT_THAT(find().fix, HasSubstr("ucx_gaudi doctor"));
}

TEST_F(FirstCause, memory_that_ucx_does_not_know_is_a_matter_of_modules) {
    evidence.knows_gaudi = false;
    facts.nics.clear();
    EXPECT_THAT(find().sentence, HasSubstr("no module"));
    set("UCX_TLS", "rc");
    EXPECT_EQ(find().id, "GD050");
    facts.ucx[0].files.clear();
    EXPECT_EQ(find().id, "GD044");
}

TEST_F(FirstCause, within_a_process_it_is_no_nic) {
    facts.nics.clear();
    transfer = *parse_transfer("gaudi:0", "gaudi:1", "1M", "tag");
    evidence.bounced = true;
    EXPECT_THAT(find().sentence, HasSubstr("one card write to another"));
    transfer = *parse_transfer("gaudi:0", "host", "1K", "put");
    EXPECT_THAT(find().sentence, HasSubstr("1024 bytes are few"));
    evidence.bounced = false;
    evidence.protocol = "eager copy-in";
    EXPECT_THAT(find().sentence, HasSubstr("'eager copy-in', which copies"));
}

} // namespace
} // namespace gaudi::cli::explain
