// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi info on installations that something is wrong with.
#include "command.h"
#include "fake_ucx.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Problems : public ::testing::Test {
protected:
    Problems() {
        add_fake_ucx(m_root / "ucx" / "lib");
        ::setenv("LD_LIBRARY_PATH", (m_root / "ucx" / "lib").c_str(), 1);
        ::setenv("GAUDI_ENGINES", (m_root / "none").c_str(), 1);
        ::setenv("HOME", m_root.c_str(), 1);
        for (const char *variable : {"UCX_PLUGIN_PATH", "GAUDI_THUNK", "UCX_CONFIG_DIR"})
            ::unsetenv(variable);
    }
    ~Problems() override { fs::remove_all(m_root); }

    static Words found(const std::string &program = UCX_GAUDI_COMMAND) {
        const Result got = result({"info", "--json"}, program);
        EXPECT_EQ(got.code, 0) << got.err;
        return nlohmann::json::parse(got.out).at("problems").get<Words>();
    }

    const fs::path m_root = fs::temp_directory_path() / ("cli-problems-test-" + std::to_string(::getpid()));
};

TEST_F(Problems, missing_core_library_is_named) {
    fs::create_directories(m_root / "bin");
    fs::copy_file(UCX_GAUDI_COMMAND, m_root / "bin" / "ucx_gaudi");
    const fs::path modules = m_root / "lib" / "ucx-gaudi";
    fs::create_directories(modules);
    std::ofstream(modules / "libuct_gaudi.so.0") << "x";
    const std::string program = (m_root / "bin" / "ucx_gaudi").string();
    EXPECT_THAT(found(program), Contains(StartsWith("GD043: " + modules.string() + " lacks libgaudi-core.so.1, ")));
    EXPECT_THAT(result({"info"}, program).out,
                HasSubstr("\nmodules:         " + modules.string() + ", without libgaudi-core.so.1, "));
}

TEST_F(Problems, old_ucx_is_explained) {
    for (const char *name : {"libucs.so.0", "libucp.so.0"})
        fs::copy_file(FAKE_UCX_OLD, m_root / "ucx" / "lib" / name, fs::copy_options::overwrite_existing);
    EXPECT_THAT(result({"info"}).out, HasSubstr("(LD_LIBRARY_PATH)\n                   it is older than 1.22 "));
}

TEST_F(Problems, incomplete_thunk_library_is_shown_with_advice) {
    ::setenv("GAUDI_THUNK", FAKE_UCX, 1);
    EXPECT_THAT(found(), Contains(::testing::EndsWith("; install a newer libhl-thunk, or name one in GAUDI_THUNK")));
    EXPECT_THAT(result({"info"}).out, HasSubstr("cannot be used as libhl-thunk: it has no hlthunk_"));
}

TEST_F(Problems, way_of_each_ucx_to_the_modules_is_shown) {
    EXPECT_THAT(
        result({"info"}).out,
        HasSubstr("(LD_LIBRARY_PATH)\n                   does not load the modules; UCX_PLUGIN_PATH is not set\n"));
    EXPECT_EQ(result({"enable", "--user"}).code, 0);
    const std::string conf = (m_root / "ucx.conf").string();
    EXPECT_THAT(
        result({"info"}).out,
        HasSubstr("(LD_LIBRARY_PATH)\n                   loads the modules; UCX_PLUGIN_PATH is from " + conf + "\n"));
    const auto out = nlohmann::json::parse(result({"info", "--json"}).out);
    EXPECT_EQ(out.at("modules").at("enabled_in"), conf);
    EXPECT_EQ(out.at("ucx")[0].at("loads_modules"), true);
}

TEST_F(Problems, cards_without_a_library_are_listed) {
    // --topology shows the cards of the modelled server on the PCI bus.
    const Result got = result(run({"--topology"}, {"env", "-u", "GAUDI_THUNK", "-u", "LD_LIBRARY_PATH", "-u",
                                                   "UCX_PLUGIN_PATH", UCX_GAUDI_COMMAND, "info"}));
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr("\n                 on PCI: 0000:"));
    EXPECT_THAT(got.out, HasSubstr("\nproblem:         GD020: no libhl-thunk was found\n"));
}

} // namespace
} // namespace cli
