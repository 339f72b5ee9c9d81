// SPDX-License-Identifier: BSD-3-Clause
// The words of ucx_gaudi explain, and the transports that it leaves UCX.
#include "cli/explain/transfer.h"

#include "cli/explain/tls_setting.h"

#include <gmock/gmock.h>

namespace gaudi::cli::explain {
namespace {

using ::testing::HasSubstr;

TEST(Transfer, ends_are_read) {
    const auto transfer = parse_transfer("gaudi:0", "remote:gaudi:7", "64K", "put");
    ASSERT_TRUE(transfer);
    EXPECT_EQ(transfer->from.card, 0u);
    EXPECT_FALSE(transfer->from.remote);
    EXPECT_EQ(transfer->to.card, 7u);
    EXPECT_TRUE(transfer->to.remote);
    EXPECT_EQ(transfer->bytes, 65536);
    EXPECT_EQ(transfer->operation, Operation::put);
    EXPECT_EQ(name_of(transfer->to), "remote:gaudi:7");
    EXPECT_EQ(name_of(*parse_end("remote:host")), "remote:host");
}

TEST(Transfer, sizes_have_units) {
    EXPECT_EQ(parse_bytes("1"), 1);
    EXPECT_EQ(parse_bytes("4k"), 4096);
    EXPECT_EQ(parse_bytes("1M"), 1 << 20);
    EXPECT_EQ(parse_bytes("2G"), std::uint64_t{2} << 30);
    EXPECT_EQ(parse_bytes("1024G"), std::uint64_t{1} << 40);
    for (const char *bad : {"", "K", "1KB", "-1", "1.5M", "0", "0K", "1025G", "99999999999999999999",
                            "18446744073709551615G", " 1", "1 ", "0x10", "inf"})
        EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Transfer, wrong_words_are_named) {
    for (const char *bad : {"", "gaudi", "gaudi:", "gaudi:x", "gaudi:-1", "gaudi:0x1", "gaudi:99999999999", "cuda:0",
                            "Host", "remote:", "remote:remote:host", "host "}) {
        const auto end = parse_end(bad);
        ASSERT_FALSE(end) << bad;
        EXPECT_THAT(end.error(), HasSubstr(std::string("'") + bad + "'"));
    }
    EXPECT_FALSE(parse_operation("send"));
}

TEST(Transfer, ends_must_go_together) {
    EXPECT_THAT(parse_transfer("host", "remote:host", "1K", "tag").error(), HasSubstr("is a card"));
    EXPECT_THAT(parse_transfer("remote:gaudi:0", "remote:gaudi:1", "1K", "tag").error(), HasSubstr("both remote"));
    EXPECT_THAT(parse_transfer("gaudi:1", "remote:gaudi:1", "1K", "tag").error(), HasSubstr("card 1"));
    EXPECT_TRUE(parse_transfer("gaudi:1", "gaudi:1", "1K", "tag"));
}

TEST(Transports, those_within_a_machine_are_left_out) {
    EXPECT_EQ(exclude_local_transports(""), "^self,sm");
    EXPECT_EQ(exclude_local_transports("all"), "^self,sm");
    EXPECT_EQ(exclude_local_transports("^tcp"), "^tcp,self,sm");
    EXPECT_EQ(exclude_local_transports("rc,self,posix,cma,gaudi_cpy"), "rc,gaudi_cpy");
}

TEST(Transports, memory_copies_reach_no_other_machine) {
    for (const char *value : {"", "gaudi_cpy", "gaudi,cuda_copy,gdr_copy", "ze_copy,rocm_copy"})
        EXPECT_FALSE(reaches_other_machines(value)) << value;
    for (const char *value : {"^self,sm", "all", "rc,gaudi_cpy", "tcp", "ud_v,cuda_ipc"})
        EXPECT_TRUE(reaches_other_machines(value)) << value;
}

} // namespace
} // namespace gaudi::cli::explain
