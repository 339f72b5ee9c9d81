// SPDX-License-Identifier: BSD-3-Clause
#include "command.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Usage, version_is_printed) {
    const Result got = result({"--version"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.out, "ucx_gaudi " UCX_GAUDI_VERSION "\n");
}

TEST(Usage, help_lists_commands_and_options) {
    const Result all = result({"--help"});
    EXPECT_EQ(all.code, 0);
    EXPECT_THAT(all.out, AllOf(HasSubstr("usage: ucx_gaudi COMMAND [OPTIONS]\n"), HasSubstr("\n  run "),
                               HasSubstr("\n  info "), HasSubstr("\n  plugin-path "), HasSubstr("\n  record "),
                               HasSubstr("\n  replay "), HasSubstr("\n  enable "), HasSubstr("\n  disable ")));
    const Result run = result({"run", "--help"});
    EXPECT_EQ(run.code, 0);
    EXPECT_THAT(run.out, HasSubstr("usage: ucx_gaudi run [OPTIONS] -- COMMAND [ARGS]\n"));
    for (const char *option : {"--cards", "--model", "--pace", "--faults", "--quirks", "--profile", "--dir", "--ucx",
                               "--hca", "--topology", "-v"})
        EXPECT_THAT(run.out, HasSubstr(option));
    EXPECT_THAT(result({"info", "--help"}).out, HasSubstr("--json"));
    const Result nothing = result({});
    EXPECT_EQ(nothing.code, 2);
    EXPECT_EQ(nothing.err, all.out);
}

void mistaken(Words words, const std::string &sentence) {
    const Result got = result(std::move(words));
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, AllOf(StartsWith("ucx_gaudi: "), HasSubstr(sentence), HasSubstr("; see ucx_gaudi"),
                               HasSubstr(" --help\n")));
    EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
}

TEST(Usage, mistake_is_one_sentence) {
    mistaken({"walk"}, "there is no command 'walk'");
    mistaken({"--walk"}, "no command is given");
    mistaken({"info", "--walk"}, "--walk");
    mistaken({"info", "--", "true"}, "only run and record take a command");
    mistaken({"plugin-path", "more"}, "more");
    mistaken({"run"}, "run needs a command after --");
    mistaken({"run", "--"}, "run needs a command after --");
    mistaken({"run", "ucx_info", "-d"}, "put -- before the program: ucx_gaudi run -- ucx_info -d;");
    mistaken({"run", "--cards", "2", "echo", "a b"},
             "put -- before the program: ucx_gaudi run --cards 2 -- echo 'a b';");
    mistaken({"record", "-o", "x", "true"}, "put -- before the program: ucx_gaudi record -o x -- true;");
    mistaken({"run", "--walk", "true"}, "--walk");
    mistaken({"record", "-o", "x"}, "record needs a command after --");
    mistaken({"record", "--", "true"}, "--output is required");
    mistaken({"replay"}, "FILE is required");
    mistaken({"run", "--cards", "9", "--", "true"}, "--cards: Value 9 not in range 0 to 8");
    mistaken({"run", "--cards", "many", "--", "true"}, "--cards");
    mistaken({"run", "--cards"}, "--cards");
    mistaken({"run", "--profile", "/nonexistent", "--", "true"}, "--profile: File does not exist: /nonexistent");
    mistaken({"run", "--hca", "0", "--", "true"}, "--hca: 0 is no number from 1 to 4");
    mistaken({"run", "--hca", "5", "--", "true"}, "--hca: 5 is no number from 1 to 4");
    mistaken({"run", "--hca", "ucx_info", "-d"},
             "--hca: ucx_info is no number from 1 to 4; a program comes after --, as in: "
             "ucx_gaudi run --hca -- ucx_info -d;");
    mistaken({"enable", "--user", "--system"}, "--system");
    mistaken({"disable", "--venv", "/x", "--user"}, "--user");
    mistaken({"run", "--model", "gaudi9", "--", "true"}, "--model: gaudi9 not in {gaudi2,gaudi3}");
}

const fs::path kTree = fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path();

TEST(Usage, plugin_path_is_the_module_directory) {
    const Result got = result({"plugin-path"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.out, (kTree / "lib" / "ucx-gaudi").string() + "\n");
    EXPECT_TRUE(fs::exists(kTree / "lib" / "ucx-gaudi" / "libuct_gaudi.so.0"));
}

TEST(Usage, copy_of_the_tree_finds_its_own_parts) {
    const fs::path tree = fs::temp_directory_path() / ("cli-usage-test-" + std::to_string(::getpid()));
    fs::create_directories(tree / "bin");
    fs::create_directories(tree / "lib");
    fs::copy(UCX_GAUDI_COMMAND, tree / "bin" / "ucx_gaudi");
    const std::string program = (tree / "bin" / "ucx_gaudi").string();

    const Result alone = result({"plugin-path"}, program);
    EXPECT_EQ(alone.code, 1);
    EXPECT_EQ(alone.err, "ucx_gaudi: " + (tree / "lib" / "ucx-gaudi").string() +
                             " is missing; install ucx-gaudi-plugin, or keep bin and lib of a build together\n");
    EXPECT_EQ(result(run({}, {"true"}), program).code, 1);

    fs::copy(kTree / "lib" / "ucx-gaudi", tree / "lib" / "ucx-gaudi", fs::copy_options::recursive);
    fs::copy(kTree / "lib" / "softgaudi", tree / "lib" / "softgaudi", fs::copy_options::recursive);
    EXPECT_EQ(result({"plugin-path"}, program).out, (tree / "lib" / "ucx-gaudi").string() + "\n");
    const Result inside = result(run({}, {program, "info"}), program);
    EXPECT_EQ(inside.code, 0);
    EXPECT_THAT(inside.out, HasSubstr((tree / "lib" / "softgaudi" / "libhl-thunk.so").string()));
    fs::remove_all(tree);
}

} // namespace
} // namespace cli
