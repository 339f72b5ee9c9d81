// SPDX-License-Identifier: BSD-3-Clause
// A process that ends without cleaning up: a card that is closed with copies under way is reset the hard way.
#include "engine_user.h"

#include <sys/wait.h>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class ProcessExit : public GaudiTest {
protected:
    static int join(pid_t child) {
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    static void post_many(EngineUser &engine) {
        for (std::uint64_t i = 0; i < 200; ++i)
            engine.down(i * 64 * kKiB, i * 128 * kKiB, 64 * kKiB);
    }
};

TEST_F(ProcessExit, waits_for_copies_first) {
    set("SOFTGAUDI_PACE", "down:0.1"); // 12.5 MiB take 0.13 s
    const pid_t child = fork();
    if (child == 0) {
        static auto *engine = new EngineUser(card());
        post_many(*engine); // all but the first few still wait in batches
        std::exit(0);
    }
    EXPECT_EQ(join(child), 0);
    const Counters counters(card());
    EXPECT_GE(counters["down_bytes"], 200 * 64 * kKiB) << "not all copies were made";
    EXPECT_EQ(counters["hard_resets"], 0u);
    EXPECT_FALSE(counters.in_use());
}

#ifndef __SANITIZE_ADDRESS__ // at its exit the child has objects of its parent's threads, which LeakSanitizer reports

TEST_F(ProcessExit, forked_child_leaves_copies_of_its_parent_alone) {
    set("SOFTGAUDI_PACE", "down:0.1");
    EngineUser engine(card());
    post_many(engine);
    ASSERT_TRUE(engine.engine.busy());
    const pid_t child = fork();
    if (child == 0)
        std::exit(0);
    EXPECT_EQ(join(child), 0);
    ASSERT_TRUE(engine.finish());
    EXPECT_EQ(engine.ended, 200u);
    EXPECT_EQ(engine.failed, 0u);
}

#endif

} // namespace
