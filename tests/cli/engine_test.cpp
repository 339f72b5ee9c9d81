// SPDX-License-Identifier: BSD-3-Clause
// Stock programs on each UCX, through `ucx_gaudi run`.
#include "command.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <ostream>

namespace cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
    const char *name;
    const char *version;
};
void PrintTo(const Case &one, std::ostream *out) { *out << one.name; } // not its address: that differs at each start

class Engine : public ::testing::TestWithParam<Case> {
protected:
    Engine() { ::unsetenv("UCX_PLUGIN_PATH"); }

    static Result on(Words command) { return result(run({"--ucx", GetParam().name}, std::move(command))); }
};

TEST_P(Engine, Version) {
    const Result got = on({"ucx_info", "-v"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, kSoftware);
    EXPECT_THAT(got.out, HasSubstr(std::string("# Library version: ") + GetParam().version + "\n"));
}

TEST_P(Engine, Devices) {
    const Result got = on({"ucx_info", "-d"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, kSoftware);
    EXPECT_THAT(got.out, HasSubstr("# Memory domain: gaudi_copy\n"));
    EXPECT_THAT(got.out, HasSubstr("#      Transport: gaudi_cpy\n"));
    EXPECT_THAT(got.out, Not(HasSubstr("WARN")));
}

TEST_P(Engine, Perftest) {
    const Result got = on({"ucx_perftest", "-l", "-t", "ucp_put_bw", "-m", "gaudi", "-n", "10", "-s", "4096"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, kSoftware);
    EXPECT_THAT(got.out, HasSubstr("| Send memory:  gaudi"));
    EXPECT_THAT(got.out, HasSubstr("\nFinal: "));
    EXPECT_THAT(got.out, Not(HasSubstr("WARN")));
}

TEST_P(Engine, NothingIsLeft) {
    const Result got = on({"/bin/sh", "-c", "ucx_info -v >/dev/null && echo $SOFTGAUDI_DIR"});
    EXPECT_EQ(got.code, 0);
    EXPECT_FALSE(fs::exists(fs::path(got.out).parent_path()));
}

TEST_P(Engine, InfoShowsWhatAProgramGets) {
    const Result got = on({UCX_GAUDI_COMMAND, "info", "--json"});
    EXPECT_EQ(got.code, 0);
    const auto out = nlohmann::json::parse(got.out);
    ASSERT_FALSE(out.at("ucx").empty());
    EXPECT_EQ(out.at("ucx")[0].at("source"), "LD_LIBRARY_PATH");
    EXPECT_EQ(out.at("ucx")[0].at("version"), GetParam().version);
    EXPECT_EQ(out.at("ucx")[0].at("supported"), true);
    EXPECT_EQ(out.at("modules").at("in_plugin_path"), true);
}

INSTANTIATE_TEST_SUITE_P(Ucx, Engine,
                         ::testing::Values(Case{"rapids", "1.22.0"}, Case{"nixl-1.22", "1.22.0"},
                                           Case{"nixl-1.23", "1.23.0"}),
                         [](const auto &one) {
                             std::string name = one.param.name;
                             std::erase_if(name, [](char letter) { return letter == '-' || letter == '.'; });
                             return name;
                         });

TEST(Engines, ByDirectory) {
    for (const char *place : {"/rapids-1.22", "/rapids-1.22/libucx", "/rapids-1.22/libucx/lib"}) {
        const Result got = result(run({"--ucx", UCX_GAUDI_ENGINES + std::string(place)}, {"ucx_info", "-v"}));
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_THAT(got.out, HasSubstr("# Library path: " UCX_GAUDI_ENGINES "/rapids-1.22/libucx/lib/libucs.so.0"));
    }
    const std::string program = UCX_GAUDI_ENGINES "/rapids-1.22/libucx/bin/ucx_info";
    const Result wheel = result(run({"--ucx", UCX_GAUDI_ENGINES "/nixl-1.23"}, {program, "-v"}));
    EXPECT_EQ(wheel.code, 0) << wheel.err;
    EXPECT_THAT(wheel.out, HasSubstr("# Library version: 1.23.0\n"));
}

TEST(Engines, InfoListsThem) {
    const Result got = result({"info"});
    EXPECT_EQ(got.code, 0);
    EXPECT_THAT(got.out,
                HasSubstr("1.22.0, " UCX_GAUDI_ENGINES "/rapids-1.22/libucx/lib/libucs.so.0 (--ucx rapids-1.22)\n"));
    EXPECT_THAT(got.out, HasSubstr("1.23.0, " UCX_GAUDI_ENGINES "/nixl-1.23/"));
    EXPECT_THAT(got.out, HasSubstr("1.21.0, too old: 1.22 is needed, " UCX_GAUDI_ENGINES "/rapids-1.21/"));
}

} // namespace
} // namespace cli
