// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi run --hca: the software HCA beside the software Gaudi.
#include "command.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLibrary =
    (fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path() / "lib/softhca/libsofthca.so").string();

/// Without the libraries that the environment of the test preloads, such as a sanitizer.
class Hca : public ::testing::Test {
protected:
    Hca() { ::unsetenv("LD_PRELOAD"); }
};

std::string echoed(const std::string &words, Words options) {
    return result(run(std::move(options), shell("echo " + words))).out;
}

TEST_F(Hca, run_sets_the_variables_of_the_library) {
    EXPECT_EQ(echoed("$LD_PRELOAD $SOFTHCA_DEVICES", {"--hca"}), kLibrary + " 2\n");
    EXPECT_EQ(echoed("$SOFTHCA_DEVICES", {"--hca", "4"}), "4\n");
    EXPECT_EQ(echoed("$SOFTHCA_DEVICES", {"--hca", "1", "--cards", "1"}), "1\n");
    EXPECT_EQ(echoed("$SOFTHCA_DEVICES", {"--hca", "--cards", "1"}), "2\n");
}

TEST_F(Hca, run_without_the_option_preloads_nothing) { EXPECT_EQ(echoed("$LD_PRELOAD$SOFTHCA_DIR", {}), "\n"); }

TEST_F(Hca, library_follows_what_is_preloaded_already) {
    ::setenv("LD_PRELOAD", SOFTGAUDI_LIBRARY, 1); // any library that is there
    EXPECT_EQ(echoed("$LD_PRELOAD", {"--hca"}), SOFTGAUDI_LIBRARY ":" + kLibrary + "\n");
}

TEST_F(Hca, run_prints_that_it_is_software) {
    EXPECT_EQ(result(run({"--hca"}, {"true"})).err, kSoftwareWithHca);
    EXPECT_EQ(result(run({}, {"true"})).err, kSoftware);
}

TEST_F(Hca, verbose_prints_variables_and_that_there_are_no_distances) {
    const Result got = result(run({"-v", "--hca", "3"}, shell("echo $SOFTHCA_DIR")));
    EXPECT_THAT(got.err, HasSubstr("LD_PRELOAD=" + kLibrary + "\nSOFTHCA_DIR=" + got.out +
                                   "SOFTHCA_DEVICES=3\nwithout --topology UCX knows no distances"));
    EXPECT_THAT(result(run({"-v", "--hca", "--topology"}, {"true"})).err, Not(HasSubstr("distance")));
    EXPECT_THAT(result(run({"-v"}, {"true"})).err, Not(HasSubstr("distance")));
}

TEST_F(Hca, fabric_is_beside_the_cards_and_removed_afterwards) {
    const Result got =
        result(run({"--hca"}, shell("touch $SOFTHCA_DIR/left && echo $SOFTHCA_DIR && dirname $SOFTGAUDI_DIR")));
    EXPECT_EQ(got.code, 0);
    const fs::path fabric = got.out.substr(0, got.out.find('\n'));
    EXPECT_EQ(got.out, fabric.string() + "\n" + fabric.parent_path().string() + "\n");
    EXPECT_FALSE(fs::exists(fabric.parent_path()));
}

TEST_F(Hca, fabric_is_removed_after_a_signal) {
    for (const int signal : {SIGTERM, SIGINT}) {
        Command command(run({"--hca"}, shell("echo $SOFTHCA_DIR; exec sleep 1000")));
        const fs::path fabric = command.out().line();
        EXPECT_TRUE(fs::is_directory(fabric));
        command.kill(signal);
        EXPECT_EQ(command.wait(), 128 + signal);
        EXPECT_FALSE(fs::exists(fabric.parent_path()));
    }
    const Result killed = result(run({"--hca"}, shell("echo $SOFTHCA_DIR; kill -9 $$")));
    EXPECT_EQ(killed.code, 128 + SIGKILL);
    EXPECT_FALSE(fs::exists(fs::path(killed.out).parent_path()));
}

TEST_F(Hca, runs_that_share_cards_share_the_fabric) {
    const std::string shared = "/dev/shm/cli-hca-test-" + std::to_string(::getpid());
    for (int run = 0; run < 2; ++run)
        EXPECT_EQ(echoed("$SOFTHCA_DIR", {"--hca", "--dir", shared}), shared + "/hca\n");
    EXPECT_TRUE(fs::is_directory(shared + "/hca"));
    fs::remove_all(shared);
}

TEST_F(Hca, missing_library_is_refused) {
    const fs::path tree = fs::temp_directory_path() / ("cli-hca-test-" + std::to_string(::getpid()));
    const fs::path built = fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path();
    fs::create_directories(tree / "bin");
    fs::create_directories(tree / "lib");
    fs::copy(UCX_GAUDI_COMMAND, tree / "bin" / "ucx_gaudi");
    for (const char *part : {"ucx-gaudi", "softgaudi"})
        fs::create_directory_symlink(built / "lib" / part, tree / "lib" / part);
    const std::string program = (tree / "bin" / "ucx_gaudi").string();
    EXPECT_EQ(result(run({}, {"true"}), program).code, 0);
    const Result got = result(run({"--hca"}, {"true"}), program);
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "ucx_gaudi: " + (tree / "lib/softhca/libsofthca.so").string() +
                           " is missing; install softhca, or keep bin and lib of a build together\n");
    fs::remove_all(tree);
}

} // namespace
} // namespace cli
