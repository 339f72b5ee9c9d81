// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/report.h"

#include "thunk/fd.h"

#include <gtest/gtest.h>

namespace gaudi::thunk {
namespace {

constexpr int kNeverOpen = 1 << 20;

TEST(Report, default_is_one_line_on_stderr) {
    testing::internal::CaptureStderr();
    { const Fd fd(kNeverOpen); }
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "ucx-gaudi: close(1048576) failed with EBADF: Bad file descriptor\n");
}

TEST(Report, replacing_returns_the_function_before) {
    const Report mine = [](const Error &) {};
    const Report normal = set_report(mine);
    EXPECT_EQ(set_report(nullptr), mine);
    EXPECT_EQ(set_report(nullptr), normal);
}

TEST(Report, exception_of_the_function_is_swallowed) {
    set_report([](const Error &) { throw 1; });
    { const Fd fd(kNeverOpen); }
    set_report(nullptr);
}

} // namespace
} // namespace gaudi::thunk
