// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi demo on the fetched UCX, as far as demo_json_test.py and docs/cli.md do not show it.
#include "command.h"

#include <gmock/gmock.h>

namespace cli {
namespace {

using ::testing::HasSubstr;

TEST(Demo, ucx_without_ib_module_shows_the_rest) {
    const Result got = result({"demo", "--ucx", "rapids"});
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr("the UCX in rapids has no ib module, so RDMA is not shown"));
    EXPECT_THAT(got.out, HasSubstr("\nThe cards\n"));
}

TEST(Demo, full_disk_behind_stdout_is_reported) {
    const Result got = result({"-c", UCX_GAUDI_COMMAND " demo --ucx rapids >/dev/full"}, "/bin/sh");
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "ucx_gaudi: cannot write to stdout: No space left on device\n");
}

TEST(Demo, unknown_ucx_is_refused) {
    const Result got = result({"demo", "--ucx", "/nowhere"});
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, HasSubstr("/nowhere"));
}

TEST(Demo, old_ucx_is_refused_before_anything_is_shown) {
    const Result got = result({"demo", "--ucx", "rapids-1.21"});
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, HasSubstr("ucx_gaudi: --ucx rapids-1.21: UCX 1.21.0 in "));
}

TEST(Demo, machine_without_ucx_shows_the_cards_and_says_what_is_missing) {
    ::setenv("GAUDI_ENGINES", "/nowhere", 1);
    ::setenv("PATH", "/nowhere", 1); // without python3, whose packages may have a UCX
    const Result got = result({"demo"});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.out, HasSubstr("\nThe cards\n"));
    EXPECT_THAT(got.err, HasSubstr("ucx_gaudi: no UCX of 1.22 or later was found"));
}

} // namespace
} // namespace cli
