// SPDX-License-Identifier: BSD-3-Clause
#include "cli/child_answer.h"

#include "cli/child.h"

#include <gtest/gtest.h>

#include <sys/prctl.h>
#include <unistd.h>

namespace gaudi::cli {
namespace {

TEST(ChildAnswer, child_writes_the_text) {
    ChildAnswer child([](int out) { ASSERT_EQ(::write(out, "text", 4), 4); });
    EXPECT_EQ(child.read(), "text");
}

TEST(ChildAnswer, signals_and_the_end_of_the_parent_end_the_child) {
    sigset_t before;
    ::sigprocmask(SIG_SETMASK, nullptr, &before);
    const HeldSignals held; // as run holds them for its program
    ChildAnswer child([](int out) {
        sigset_t blocked;
        ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
        int with_parent = 0;
        ::prctl(PR_GET_PDEATHSIG, &with_parent);
        std::string found = std::to_string(with_parent);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
            found += ::sigismember(&blocked, signal) == 1 ? " blocked" : " free";
        ASSERT_EQ(::write(out, found.data(), found.size()), static_cast<ssize_t>(found.size()));
    });
    EXPECT_EQ(child.read(), std::to_string(SIGKILL) + " free free free free");
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

} // namespace
} // namespace gaudi::cli
