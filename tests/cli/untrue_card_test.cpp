// SPDX-License-Identifier: BSD-3-Clause
// What ucx_gaudi verify names as failed (verify_test.cpp), under a UCX program: every byte arrives, or the reason is given.
#include "command.h"

#include <gmock/gmock.h>

namespace cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Result exchange(const std::string &faults) {
    return result(run({"--ucx", "rapids", "--cards", "2", "--faults", faults}, {UCP_EXCHANGE, SOFTGAUDI_STAT}));
}

class UntrueCard : public ::testing::TestWithParam<const char *> {};

TEST_P(UntrueCard, every_byte_arrives) {
    const Result got = exchange(GetParam());
    EXPECT_EQ(got.code, 0) << got.out << got.err;
    EXPECT_THAT(got.out, HasSubstr("every byte arrived"));
    EXPECT_THAT(got.out, Not(HasSubstr("FAILED")));
}

INSTANTIATE_TEST_SUITE_P(Fault, UntrueCard,
                         ::testing::Values("command_submission#3=skip",                   // A1, A2: the self-test
                                           "device_mapped_memory_export_dmabuf_fd=EPERM", // A9, A39
                                           "host_memory_map#6=EFAULT"));                  // A12

TEST(UntrueCardRefusal, refused_submissions_give_the_reason) { // A3
    const Result got = exchange("command_submission=EINVAL");
    EXPECT_NE(got.code, 0);
    EXPECT_THAT(got.out, HasSubstr("hlthunk_command_submission"));
}

} // namespace
} // namespace cli
