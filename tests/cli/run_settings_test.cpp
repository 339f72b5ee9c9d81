// SPDX-License-Identifier: BSD-3-Clause
// Settings of softgaudi and softhca that `ucx_gaudi run` refuses.
#include "command.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace cli {
namespace {

using ::testing::StartsWith;

void expect_refusal(Words options, int code, const std::string &start) {
    const Result got = result(run(std::move(options), {"echo", "started"}));
    EXPECT_EQ(got.code, code);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, StartsWith("ucx_gaudi: " + start));
    EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
}

class RunSettings : public ::testing::Test {
protected:
    void expect_wrong(const char *variable, const char *value, Words options = {}) {
        ::setenv(variable, value, 1);
        expect_refusal(std::move(options), 1, variable);
        ::unsetenv(variable);
    }
};

TEST_F(RunSettings, wrong_option_is_refused_by_its_name) {
    expect_refusal({"--pace", "foo"}, 2, "--pace: 'foo': expected ");
    expect_refusal({"--pace", "down:fast"}, 2, "--pace: ");
    expect_refusal({"--faults", "open"}, 2, "--faults: 'open': expected ");
    expect_refusal({"--faults", "open@9=EIO"}, 2, "--faults: 'open@9=EIO': ");
    expect_refusal({"--faults", "walk=EIO"}, 2, "--faults: 'walk=EIO': ");
    expect_refusal({"--quirks", "mainline,odd"}, 2, "--quirks: 'odd': unknown quirk; expected ");
    expect_refusal({"--cards", "0x3"}, 2, "--cards 0x3: expected a number from 0 to 8");
    expect_refusal({"--profile", "/dev/null"}, 2, "--profile /dev/null: is not JSON");
}

TEST_F(RunSettings, wrong_variable_is_refused) {
    expect_wrong("SOFTGAUDI_CARDS", "9");
    expect_wrong("SOFTGAUDI_MODEL", "gaudi9");
    expect_wrong("SOFTGAUDI_PIN", "maybe");
    expect_wrong("SOFTGAUDI_BAR", "0");
    expect_wrong("SOFTGAUDI_PACE", "foo");
    expect_wrong("SOFTGAUDI_FAULTS", "foo");
    expect_wrong("SOFTGAUDI_QUIRKS", "foo");
    expect_wrong("SOFTGAUDI_PROFILE", "/nonexistent");
    expect_wrong("SOFTHCA_PACE", "foo", {"--hca"});
    expect_wrong("SOFTHCA_FAULTS", "foo", {"--hca"});
}

TEST_F(RunSettings, option_wins_over_a_wrong_variable) {
    ::setenv("SOFTGAUDI_PACE", "foo", 1);
    EXPECT_EQ(result(run({"--pace", "down:25"}, {"true"})).code, 0);
    ::unsetenv("SOFTGAUDI_PACE");
}

TEST_F(RunSettings, directory_that_cannot_be_written_is_refused) {
    const Result got = result({"--user", "--map-root-user", "--mount", "sh", "-c",
                               "mount -t tmpfs -o ro none /mnt && exec " UCX_GAUDI_COMMAND " run --dir /mnt -- true"},
                              "/usr/bin/unshare");
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.err, "ucx_gaudi: --dir /mnt: cannot be written to: Read-only file system\n");
}

TEST_F(RunSettings, refused_run_leaves_no_directory) {
    const std::string made = "/dev/shm/refused-run-" + std::to_string(::getpid());
    EXPECT_EQ(result({"run", "--dir", made, "--hca", "--pace", "foo", "--", "true"}).code, 2);
    EXPECT_FALSE(std::filesystem::exists(made));
    ASSERT_TRUE(std::filesystem::create_directory(made));
    EXPECT_EQ(result({"run", "--dir", made, "--pace", "foo", "--", "true"}).code, 2);
    EXPECT_TRUE(std::filesystem::exists(made)) << "it was there before";
    std::filesystem::remove_all(made);
}

TEST_F(RunSettings, closed_stdin_is_no_file_of_ours) {
    const Result got = result({"-c", "exec '" UCX_GAUDI_COMMAND "' run -- readlink /proc/self/fd/0 <&-"}, "/bin/sh");
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.out, "/dev/null\n");
}

} // namespace
} // namespace cli
