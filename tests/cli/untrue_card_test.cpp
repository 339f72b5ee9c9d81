// SPDX-License-Identifier: BSD-3-Clause
// A UCX program on cards that are not as assumed: every byte arrives, or the reason is printed. That `ucx_gaudi verify` names
// these assumptions is for verify_test.cpp.
#include "command.h"
#include "untruths.h"

#include <gmock/gmock.h>

namespace cli {
namespace {

using ::testing::HasSubstr;

class UntrueCard : public ::testing::Test {
protected:
    UntrueCard() {
        char name[] = "/dev/shm/cli-untrue-test-XXXXXX";
        m_dir = ::mkdtemp(name);
        ::setenv("XDG_CACHE_HOME", m_dir.c_str(), 1);
    }
    ~UntrueCard() override { fs::remove_all(m_dir); }

    Words on_card(const Json &change, Words options, const Words &command) const {
        write_profile(m_dir + "/profile.json", change);
        options.insert(options.end(), {"--cards", "2", "--profile", m_dir + "/profile.json"});
        return run(options, command);
    }
    /// Two processes, within the machine.
    Result exchange(const Json &change) const { return result(on_card(change, {"--ucx", "rapids"}, {SMALL_EXCHANGE})); }
    /// Two processes over RDMA, with zero copy where memory is exported.
    Result exchange_by_rdma(const Json &change) const {
        return result(on_card(change, {"--ucx", "nixl-1.23", "--hca"}, {SMALL_EXCHANGE}));
    }
    Result verify(const Json &change, const char *soak) const {
        return result(on_card(change, {"--hca"}, {UCX_GAUDI_COMMAND, "verify", "--soak", soak}));
    }

private:
    std::string m_dir;
};

void expect_every_byte(const Result &got) {
    EXPECT_EQ(got.code, 0) << got.out << got.err;
    EXPECT_THAT(got.out, HasSubstr("every byte arrived\n"));
}

class Untrue : public UntrueCard, public ::testing::WithParamInterface<Untruth> {};

TEST_P(Untrue, every_byte_arrives_or_the_reason_is_printed) {
    const Result got = exchange(GetParam().change);
    if (!GetParam().reason) {
        expect_every_byte(got);
        return;
    }
    EXPECT_EQ(got.code, 1) << got.out << got.err;
    EXPECT_THAT(got.out, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(UntrueCard, Untrue, ::testing::ValuesIn(untruths()),
                         [](const auto &one) { return one.param.name; });

TEST_F(UntrueCard, early_flag_is_not_relied_on) { // A2
    const Json change = fact("soak", "flag_order_held", false);
    EXPECT_THAT(verify(change, "30").out, HasSubstr("a completion flag came before its data: queue "));
    expect_every_byte(exchange(change));
}

TEST_F(UntrueCard, memory_is_staged_where_the_flush_fails) { // A11
    const Json change = fact("nic", "flush", "EIO");
    EXPECT_THAT(verify(change, "0").out, HasSubstr("\nA11  failed "));
    expect_every_byte(exchange_by_rdma(change));
}

TEST_F(UntrueCard, memory_is_staged_where_nothing_is_exported) { // A9, on a machine with NICs
    expect_every_byte(exchange_by_rdma(fact("export", "whole", "EPERM")));
}

TEST_F(UntrueCard, writes_of_a_nic_are_flushed) { // not false: A11 says so
    expect_every_byte(exchange_by_rdma(fact("nic", "stale_without_flush", 50)));
}

TEST_F(UntrueCard, gaudi3_that_takes_submissions_gets_none) { // A14
    const Json change = {{"card",
                          {{"generation", "gaudi3"},
                           {"memory_bytes", std::uint64_t{127} << 30},
                           {"memory_base", 0x0201002000000000u},
                           {"page_bytes", 32 << 20},
                           {"edma_mask", 0}}},
                         {"behaviour", {{"copies", {{"submission", "success"}}}}}};
    EXPECT_THAT(verify(change, "0").out, HasSubstr("\nA14  failed "));
    const Result got = exchange(change);
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, HasSubstr("put from host memory to gaudi"));
}

} // namespace
} // namespace cli
