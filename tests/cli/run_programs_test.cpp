// SPDX-License-Identifier: BSD-3-Clause
// Programs that use cards under `ucx_gaudi run`, and the counters that it prints.
#include "command.h"

#include <gmock/gmock.h>

namespace cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Opens the first card, as a program in Python does it.
constexpr const char *kOpen = "import ctypes, os\n"
                              "thunk = ctypes.CDLL(os.environ['GAUDI_THUNK'])\n"
                              "print('opened' if thunk.hlthunk_open_by_module_id(0) >= 0 else 'refused', flush=True)\n";

TEST(RunPrograms, python_program_opens_a_card) {
    const Result got = result(run({"--cards", "1"}, {PYTHON, "-c", kOpen}));
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.out, "opened\n");
}

TEST(RunPrograms, processes_of_a_launcher_share_the_cards) {
    const std::string script = "import subprocess, sys\n" + std::string(kOpen) +
                               "sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)\n";
    const Result got = result(run({"--cards", "1"}, {PYTHON, "-c", script, kOpen}));
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.out, "opened\nrefused\n"); // the one card is taken by the launcher
}

// ---- --stat -------------------------------------------------------------------------------------------------------

TEST(RunStatistics, counters_are_printed_after_the_program) {
    const Result got = result(run({"--cards", "1", "--stat"}, {PYTHON, "-c", kOpen}));
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.out, "opened\n");
    EXPECT_THAT(got.err, StartsWith(kSoftware + "ucx_gaudi: counters of softgaudi_stat:\ncard 0 ("));
    EXPECT_THAT(got.err, HasSubstr("  opens                    1\n"));
    EXPECT_THAT(got.err, Not(HasSubstr("softhca")));
}

TEST(RunStatistics, program_without_cards_has_no_counters_and_keeps_its_exit_code) {
    const Result got = result(run({"--stat"}, shell("exit 3")));
    EXPECT_EQ(got.code, 3);
    EXPECT_THAT(got.err,
                StartsWith(kSoftware + "ucx_gaudi: no counters: softgaudi_stat: no software Gaudi server in "));
    EXPECT_THAT(got.err, EndsWith(": no program has used its cards yet\n"));
}

TEST(RunStatistics, failure_to_read_counters_is_told_from_no_use) {
    const Result got = result(run({"--stat"}, shell("mkdir $SOFTGAUDI_DIR/GAUDI2-card0")));
    EXPECT_EQ(got.code, 0);
    EXPECT_THAT(got.err, StartsWith(kSoftware + "ucx_gaudi: no counters: softgaudi_stat: "));
    EXPECT_THAT(got.err, Not(HasSubstr("used")));
}

TEST(RunStatistics, counters_follow_a_signal) {
    Command command(run({"--stat"}, {"/bin/sh", "-c", "echo ready; exec sleep 1000"}));
    EXPECT_EQ(command.out().line(), "ready");
    command.kill(SIGTERM);
    EXPECT_THAT(command.err().rest(), EndsWith(": no program has used its cards yet\n"));
    EXPECT_EQ(command.wait(), 128 + SIGTERM);
}

} // namespace
} // namespace cli
