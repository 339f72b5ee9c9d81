// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi info on installations that something is wrong with.
#include "command.h"
#include "fake_ucx.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const fs::path kTree = fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path();

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
        auto problems = nlohmann::json::parse(got.out).at("problems").get<Words>();
        for (const std::string &problem : problems)
            EXPECT_THAT(result({"info"}, program).out, HasSubstr("\nproblem:         " + problem + "\n"));
        return problems;
    }

    const fs::path m_root = fs::temp_directory_path() / ("cli-problems-test-" + std::to_string(::getpid()));
};

TEST_F(Problems, complete_installation_has_none) {
    ::setenv("UCX_PLUGIN_PATH", (kTree / "lib" / "ucx-gaudi").c_str(), 1);
    EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Problems, missing_directory_is_named) {
    ::setenv("UCX_PLUGIN_PATH", "/no/such", 1);
    EXPECT_THAT(found(), ElementsAre("UCX_PLUGIN_PATH names /no/such, which does not exist; "
                                     "export UCX_PLUGIN_PATH=$(ucx_gaudi plugin-path)"));
}

TEST_F(Problems, directory_without_a_module_for_this_ucx_is_named) {
    const fs::path other = m_root / "other";
    fs::create_directory(other);
    std::ofstream(other / "libuct_gaudi.so.0.0.0") << "x"; // for a libucs of another name
    std::ofstream(other / "libz.so.0") << "x";
    ::setenv("UCX_PLUGIN_PATH", other.c_str(), 1);
    EXPECT_THAT(found(),
                ElementsAre(StartsWith("UCX_PLUGIN_PATH names " + other.string() + ", where nothing ends in .so.0 as " +
                                       (m_root / "ucx/lib/libucp.so.0").string() + " does")));
    std::ofstream(other / "libuct_other.so.0") << "x";
    EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Problems, missing_core_library_is_named) {
    fs::create_directories(m_root / "bin");
    fs::copy_file(UCX_GAUDI_COMMAND, m_root / "bin" / "ucx_gaudi");
    const fs::path modules = m_root / "lib" / "ucx-gaudi";
    fs::create_directories(modules);
    std::ofstream(modules / "libuct_gaudi.so.0") << "x";
    EXPECT_THAT(found((m_root / "bin" / "ucx_gaudi").string()),
                ElementsAre("libgaudi-core.so.1 is missing in " + modules.string() +
                            ", and the modules there do not load without it; install ucx-gaudi-plugin again"));
}

TEST_F(Problems, old_ucx_is_explained) {
    for (const char *name : {"libucs.so.0", "libucp.so.0"})
        fs::copy_file(FAKE_UCX_OLD, m_root / "ucx" / "lib" / name, fs::copy_options::overwrite_existing);
    EXPECT_THAT(result({"info"}).out, HasSubstr("(LD_LIBRARY_PATH)\n                   it is older than 1.22 "));
}

TEST_F(Problems, incomplete_thunk_library_is_an_error_with_advice) {
    ::setenv("GAUDI_THUNK", FAKE_UCX, 1);
    const Result got = result({"info"});
    EXPECT_EQ(got.code, 1);
    EXPECT_THAT(got.err, HasSubstr("cannot be used as libhl-thunk: it has no hlthunk_"));
    EXPECT_THAT(got.err, ::testing::EndsWith("; install a newer libhl-thunk, or name one in GAUDI_THUNK\n"));
}

TEST_F(Problems, setting_in_a_file_is_found) {
    EXPECT_EQ(result({"enable", "--user"}).code, 0);
    EXPECT_THAT(result({"info"}).out, HasSubstr("\nUCX_PLUGIN_PATH: is set to the module directory in " +
                                                (m_root / "ucx.conf").string() + "\n"));
}

TEST_F(Problems, cards_without_a_library_are_counted) {
    // --topology shows the cards of the modelled server on the PCI bus.
    const Result got = result(run({"--topology"}, {"env", "-u", "GAUDI_THUNK", "-u", "LD_LIBRARY_PATH", "-u",
                                                   "UCX_PLUGIN_PATH", UCX_GAUDI_COMMAND, "info"}));
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr("\nproblem:         there are 8 Gaudi cards (0000:"));
    EXPECT_THAT(got.out, HasSubstr("), and no libhl-thunk to use them; install the libraries of the Gaudi driver"));
}

} // namespace
} // namespace cli
