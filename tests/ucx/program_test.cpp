// SPDX-License-Identifier: BSD-3-Clause
// The built modules in UCX's own programs.
#include "program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::ucx {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

const std::string kWithModules = "LD_LIBRARY_PATH=" + kRapids + "/lib UCX_PLUGIN_PATH=" UCX_GAUDI_MODULES " ";

// This program holds libucs's options itself, by a copy relocation, so a log line at debug level also shows that the
// module reads the copy.
TEST(Program, ucx_info_loads_the_module) {
    const Finished info = run(kWithModules + "UCX_LOG_LEVEL=debug", kRapids + "/bin/ucx_info -d");
    EXPECT_EQ(info.status, 0) << info.output;
    EXPECT_THAT(info.output,
                HasSubstr("serves UCX 1.22.0 (" + kRapids + "/lib/libucs.so.0), operation tables of 1.22.0"));
    EXPECT_THAT(warnings(info.output), testing::IsEmpty());
}

TEST(Program, ucx_perftest_loads_both_modules) {
    const Finished perftest = run(kWithModules + "UCX_MODULE_LOG_LEVEL=info UCX_LOG_LEVEL=info UCX_TLS=self",
                                  kRapids + "/bin/ucx_perftest -l -t tag_lat -n 10 -w 1");
    EXPECT_EQ(perftest.status, 0) << perftest.output;
    EXPECT_THAT(perftest.output, HasSubstr("loaded " UCX_GAUDI_MODULES "/libucx_perftest_gaudi.so.0 "));
    EXPECT_THAT(perftest.output, HasSubstr("loaded " UCX_GAUDI_MODULES "/libuct_gaudi.so.0 "));
    EXPECT_THAT(perftest.output, testing::Not(ContainsRegex("gaudi[^\n]*failed")));
    EXPECT_THAT(warnings(perftest.output), testing::IsEmpty());
}

// This machine has neither libhl-thunk nor cards: the modules may be installed everywhere.
TEST(Program, machine_without_cards_offers_the_same_as_without_the_module) {
    const std::string bare = "LD_LIBRARY_PATH=" + kRapids + "/lib ";
    const Finished with = run(kWithModules, kRapids + "/bin/ucx_info -d");
    const Finished without = run(bare, kRapids + "/bin/ucx_info -d");
    EXPECT_EQ(with.status, 0);
    const auto offered = [](const std::string &output) { // figures and network devices come and go with the machine
        return lines_with({"# Memory domain: ", "Transport: ", "memory types: ", "register: "}, output);
    };
    EXPECT_EQ(offered(with.output), offered(without.output));
    EXPECT_THAT(offered(with.output), testing::Contains(HasSubstr("Transport: self")));
    EXPECT_THAT(warnings(with.output), testing::IsEmpty());
    EXPECT_THAT(with.output, testing::Not(HasSubstr("gaudi_copy")));
}

TEST(Program, ucx_modules_excludes_the_module) {
    const Finished info = run(kWithModules + "UCX_LOG_LEVEL=debug UCX_MODULES=^gaudi", kRapids + "/bin/ucx_info -d");
    EXPECT_EQ(info.status, 0) << info.output;
    EXPECT_THAT(info.output, testing::Not(HasSubstr("ucx-gaudi")));
}

/// A UCX 1.21 with our module. It loads only modules that it knows by name, so ours gets such a name.
class OldUcx : public testing::Test {
protected:
    void SetUp() override {
        fs::create_directories(m_lib / "ucx");
        for (const char *name : {"libucm.so.0", "libucs.so.0", "libucs_signal.so.0", "libuct.so.0", "libucp.so.0"})
            fs::create_symlink(m_old + "/lib/" + name, m_lib / name);
        fs::copy(UCX_GAUDI_MODULES "/libuct_gaudi.so.0", m_lib / "ucx" / "libuct_cma.so.0");
        fs::copy(UCX_GAUDI_MODULES "/libgaudi-core.so.1", m_lib / "ucx");
    }
    void TearDown() override { fs::remove_all(m_lib); }

    const std::string m_old = UCX_GAUDI_ENGINES "/rapids-1.21/libucx";
    const fs::path m_lib = fs::path(testing::TempDir()) / ("ucx-1.21-" + std::to_string(::getpid()));
};

TEST_F(OldUcx, module_refuses_with_one_warning_and_ucx_continues) {
    const Finished info = run("LD_LIBRARY_PATH=" + m_lib.string(), m_old + "/bin/ucx_info -d");
    EXPECT_EQ(info.status, 0) << info.output;
    EXPECT_THAT(info.output, HasSubstr("# Memory domain: self"));
    const std::vector<std::string> said = warnings(info.output);
    ASSERT_EQ(said.size(), 1U) << info.output;
    EXPECT_THAT(said[0],
                ContainsRegex("WARN  no Gaudi support: UCX 1\\.21\\.0 \\(.*/libucs\\.so\\.0\\) cannot be used: "
                              "its libuct has no uct_iface_query_v2; "
                              "ucx-gaudi needs UCX 1\\.22 or later, built without statistics$"));
}

} // namespace
} // namespace gaudi::ucx
