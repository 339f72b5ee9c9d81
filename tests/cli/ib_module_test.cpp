// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi run --hca on UCX builds with and without the module that drives HCAs. The modules are empty files with UCX's
// names: the command looks at no more than those.
#include "command.h"
#include "fake_ucx.h"

#include <gmock/gmock.h>

#include <fstream>

namespace cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

/// A directory of UCX builds, which is what --ucx chooses from.
class IbModule : public ::testing::Test {
protected:
    IbModule() {
        fs::create_directories(m_builds);
        ::setenv("GAUDI_ENGINES", m_builds.c_str(), 1);
        for (const char *variable : {"LD_PRELOAD", "UCX_PLUGIN_PATH", "UCX_MODULE_DIR"})
            ::unsetenv(variable);
    }
    ~IbModule() override { fs::remove_all(m_builds); }

    fs::path add(const std::string &build, const Words &files) const {
        for (const std::string &file : files) {
            const fs::path path = m_builds / build / file;
            fs::create_directories(path.parent_path());
            const std::string name = path.filename().string();
            if (name.starts_with("libucs"))
                add_fake_ucx(path.parent_path(), FAKE_UCX, name, "libucp" + name.substr(6));
            else
                std::ofstream out(path);
        }
        return m_builds / build;
    }
    static Result with_hca(const std::string &ucx) { return result(run({"--hca", "--ucx", ucx}, {"echo", "started"})); }

    static void expect_started(const std::string &ucx) {
        const Result got = with_hca(ucx);
        EXPECT_EQ(got.out, "started\n") << ucx;
        EXPECT_EQ(got.err, kSoftwareWithHca);
    }
    static void expect_refused(const std::string &ucx) {
        const Result got = with_hca(ucx);
        EXPECT_EQ(got.code, 2);
        EXPECT_EQ(got.out, "") << ucx;
        EXPECT_THAT(got.err, HasSubstr("ucx_gaudi: --hca: the UCX of --ucx " + ucx + " cannot use an HCA: "));
    }

    const fs::path m_builds = fs::temp_directory_path() / ("cli-ib-module-test-" + std::to_string(::getpid()));
};

TEST_F(IbModule, ucx_with_plain_file_names_starts) {
    add("plain", {"lib/libucs.so.0", "lib/ucx/libuct_cma.so.0", "lib/ucx/libuct_ib.so.0"});
    expect_started("plain");
}

TEST_F(IbModule, ucx_with_hashed_file_names_starts) {
    add("wheel", {"some.libs/libucs-14c218c5.so.0.0.0", "some.libs/ucx/libuct_ib.so.0.0.0"});
    add("hashed", {"some.libs/libucs-14c218c5.so.0.0.0", "some.libs/ucx/libuct_ib-0a1b2c3d.so.0.0.0"});
    expect_started("wheel");
    expect_started("hashed");
}

TEST_F(IbModule, ucx_with_other_modules_only_is_refused) {
    const fs::path at = add(
        "none", {"lib/libucs.so.0", "lib/ucx/libuct_cma.so.0", "lib/ucx/libuct_ib_mlx5.so.0", "lib/ucx/libuct_ib.la"});
    expect_refused("none");
    expect_refused(at.string());
    EXPECT_THAT(with_hca("none").err, EndsWith("there is no libuct_ib in " + (at / "lib/ucx").string() + "\n"));
    EXPECT_EQ(result(run({"--ucx", "none"}, {"echo", "started"})).out, "started\n"); // --hca is what it lacks
}

TEST_F(IbModule, refusal_names_fetched_ucx_with_the_module) {
    add("none", {"lib/libucs.so.0", "lib/ucx/libuct_cma.so.0"});
    add("one", {"lib/libucs.so.0", "lib/ucx/libuct_ib.so.0"});
    add("two", {"lib/libucs.so.0", "lib/ucx/libuct_ib.so.0"});
    EXPECT_THAT(with_hca("none").err, EndsWith("; use --ucx one or --ucx two\n"));
}

TEST_F(IbModule, module_in_a_directory_of_the_environment_counts) {
    add("none", {"lib/libucs.so.0", "lib/ucx/libuct_cma.so.0"});
    const fs::path more = add("more", {"libuct_ib.so.0"});
    for (const char *variable : {"UCX_PLUGIN_PATH", "UCX_MODULE_DIR"}) {
        ::setenv(variable, ("/nowhere:" + more.string()).c_str(), 1);
        expect_started("none");
        ::unsetenv(variable);
        expect_refused("none");
    }
}

TEST_F(IbModule, ucx_whose_modules_are_elsewhere_starts) {
    add("bare", {"lib/libucs.so.0"}); // it may find them where it was installed when it was built
    expect_started("bare");
}

} // namespace
} // namespace cli
