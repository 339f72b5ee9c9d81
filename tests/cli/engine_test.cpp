// SPDX-License-Identifier: BSD-3-Clause
// Stock programs on each UCX, through `ucx_gaudi run`.
#include "command.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
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

class Ucx : public ::testing::TestWithParam<Case> {
protected:
    Ucx() { ::unsetenv("UCX_PLUGIN_PATH"); }

    static Result on(Words command) { return result(run({"--ucx", GetParam().name}, std::move(command))); }
};

TEST_P(Ucx, ucx_info_prints_its_version) {
    const Result got = on({"ucx_info", "-v"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, kSoftware);
    EXPECT_THAT(got.out, HasSubstr(std::string("# Library version: ") + GetParam().version + "\n"));
}

TEST_P(Ucx, ucx_info_lists_the_domain_and_the_transport) {
    const Result got = on({"ucx_info", "-d"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, kSoftware);
    EXPECT_THAT(got.out, HasSubstr("# Memory domain: gaudi_copy\n"));
    EXPECT_THAT(got.out, HasSubstr("#      Transport: gaudi_cpy\n"));
    EXPECT_THAT(got.out, Not(HasSubstr("WARN")));
}

TEST_P(Ucx, ucx_perftest_runs_on_gaudi_memory) {
    const Result got = on({"ucx_perftest", "-l", "-t", "ucp_put_bw", "-m", "gaudi", "-n", "10", "-s", "4096"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, kSoftware);
    EXPECT_THAT(got.out, HasSubstr("| Send memory:  gaudi"));
    EXPECT_THAT(got.out, HasSubstr("\nFinal: "));
    EXPECT_THAT(got.out, Not(HasSubstr("WARN")));
}

TEST_P(Ucx, ucx_perftest_runs_on_any_two_memory_types) {
    for (const char *memory : {"gaudi", "host,gaudi", "gaudi,host"})
        for (const char *test : {"tag_lat", "tag_bw", "ucp_put_lat", "ucp_get", "stream_bw", "ucp_am_bw"}) {
            // Short ones with latency tests, long ones with the others: each program start takes most of the time.
            const char *size = std::string(test).ends_with("lat") ? "8" : "100000";
            const Result got = on({"ucx_perftest", "-l", "-t", test, "-m", memory, "-n", "20", "-w", "2", "-s", size});
            EXPECT_EQ(got.code, 0) << test << ' ' << memory << ' ' << size;
            EXPECT_THAT(got.out, HasSubstr("\nFinal: "));
            EXPECT_THAT(got.out, Not(::testing::ContainsRegex(" (WARN|ERROR) ")));
        }
}

TEST_P(Ucx, ucx_perftest_without_cards_prints_the_reason) {
    const Result wrong = on({"env", "GAUDI_MAPPING_TABLE=[{\"index\": 0}]", "ucx_perftest", "-l", "-t", "tag_lat", "-m",
                             "gaudi", "-n", "10"});
    EXPECT_NE(wrong.code, 0);
    EXPECT_THAT(wrong.out, HasSubstr("GAUDI_MAPPING_TABLE"));
    const Result none =
        on({"env", "SOFTGAUDI_CARDS=0", "ucx_perftest", "-l", "-t", "tag_lat", "-m", "gaudi", "-n", "10"});
    EXPECT_NE(none.code, 0);
    EXPECT_THAT(none.out, HasSubstr("there is no Gaudi card"));
    const Result hidden =
        on({"env", "HABANA_VISIBLE_MODULES=99", "ucx_perftest", "-l", "-t", "tag_lat", "-m", "gaudi", "-n", "10"});
    EXPECT_NE(hidden.code, 0);
    EXPECT_THAT(hidden.out,
                HasSubstr("there is no Gaudi card: HABANA_VISIBLE_MODULES=99 selects none of the modules 0, 1"));
}

TEST_P(Ucx, ucx_perftest_runs_on_the_transport_alone) {
    for (const char *memory : {"gaudi", "host,gaudi", "gaudi,host"})
        for (const auto &[test, data] :
             {std::pair{"put_lat", "short"}, {"put_bw", "zcopy"}, {"get", "short"}, {"get", "zcopy"}}) {
            const Result got = on({"ucx_perftest", "-l", "-x", "gaudi_cpy", "-d", "gaudi", "-t", test, "-D", data, "-m",
                                   memory, "-n", "20", "-w", "2", "-s", "4096"});
            EXPECT_EQ(got.code, 0) << test << ' ' << data << ' ' << memory << '\n' << got.out;
            EXPECT_THAT(got.out, HasSubstr("\nFinal: "));
            EXPECT_THAT(got.out, Not(::testing::ContainsRegex(" (WARN|ERROR) ")));
        }
}

TEST_P(Ucx, ucx_info_prints_the_capabilities_of_the_transport) {
    const Result got = on({"ucx_info", "-d", "-t", "gaudi_cpy"});
    EXPECT_EQ(got.code, 0);
    for (const char *line :
         {"# Memory domain: gaudi_copy\n", "#     Component: gaudi_copy\n", "#             allocate: unlimited\n",
          "#             register: unlimited, dmabuf, cost: 0 nsec\n", "#           remote key: 24 bytes\n",
          "#         memory types: host (access,reg), gaudi (access,alloc,reg,detect,dmabuf)\n",
          "#      Transport: gaudi_cpy\n", "#           Type: accelerator\n", "#            put_short: <= ",
          "#            put_zcopy: unlimited", "#            get_short: <= ", "#            get_zcopy: unlimited"})
        EXPECT_THAT(got.out, HasSubstr(line));
    EXPECT_THAT(got.out, Not(HasSubstr("gaudi_gdr")));
}

TEST_P(Ucx, ucx_info_lists_the_settings) {
    const Result got = on({"ucx_info", "-f"});
    EXPECT_EQ(got.code, 0);
    for (const char *name :
         {"UCX_GAUDI_COPY_DEVICE=auto", "UCX_GAUDI_COPY_MAX_MEMORY=inf", "UCX_GAUDI_COPY_DMABUF=try",
          "UCX_GAUDI_COPY_OPEN_TIMEOUT=15", "UCX_GAUDI_COPY_MAX_MAPPED_HOST=auto", "UCX_GAUDI_CPY_COMPLETION=auto",
          "UCX_GAUDI_CPY_BW=", "UCX_GAUDI_CPY_FRAMEWORK=n",
          "UCX_GAUDI_CPY_LATENCY=", "UCX_GAUDI_CPY_OVERHEAD=", "UCX_GAUDI_GDR_DEVICE_ID=", "UCX_GAUDI_STATS=n"})
        EXPECT_THAT(got.out, HasSubstr(name));
}

/// The domain needs the setting before UCX reads those of the transport.
TEST_P(Ucx, ucx_conf_decides_whether_copies_by_a_framework_are_offered) {
    char name[] = "/tmp/ucx-conf-test-XXXXXX";
    const fs::path directory = ::mkdtemp(name);
    for (const char *value : {"y", "n"}) {
        std::ofstream(directory / "ucx.conf") << "UCX_GAUDI_CPY_FRAMEWORK=" << value << "\n";
        const Result got = on({"env", "SOFTGAUDI_MODEL=gaudi3", "UCX_CONFIG_DIR=" + directory.string(), "ucx_info",
                               "-d", "-t", "gaudi_cpy"});
        EXPECT_EQ(got.code, 0);
        EXPECT_EQ(got.out.find("put_short: <= ") != std::string::npos, *value == 'y') << got.out;
        EXPECT_THAT(got.out, Not(::testing::ContainsRegex(" (WARN|ERROR) ")));
    }
    fs::remove_all(directory);
}

TEST_P(Ucx, launch_line_for_gaudi_gdr_brings_no_warning) {
    const Result got = on({"env", "UCX_GAUDI_GDR_DEVICE_ID=3", "UCX_TLS=tcp,gaudi", "ucx_perftest", "-l", "-t",
                           "tag_lat", "-m", "gaudi", "-n", "20", "-w", "2"});
    EXPECT_EQ(got.code, 0) << got.out;
    EXPECT_THAT(got.out, Not(::testing::ContainsRegex(" (WARN|ERROR) ")));
}

TEST_P(Ucx, run_leaves_no_directory) {
    const Result got =
        on({"env", "-u", "LD_PRELOAD", "/bin/sh", "-c", "ucx_info -v >/dev/null && echo $SOFTGAUDI_DIR"});
    EXPECT_EQ(got.code, 0);
    EXPECT_FALSE(fs::exists(fs::path(got.out).parent_path()));
}

TEST_P(Ucx, info_inside_a_run_shows_the_ucx_of_the_run) {
    const Result got = on({UCX_GAUDI_COMMAND, "info", "--json"});
    EXPECT_EQ(got.code, 0);
    const auto out = nlohmann::json::parse(got.out);
    ASSERT_FALSE(out.at("ucx").empty());
    EXPECT_EQ(out.at("ucx")[0].at("source"), "LD_LIBRARY_PATH");
    EXPECT_EQ(out.at("ucx")[0].at("version"), GetParam().version);
    EXPECT_EQ(out.at("ucx")[0].at("supported"), true);
    EXPECT_EQ(out.at("modules").at("in_plugin_path"), true);
}

/// The UCX builds that these tests run on.
std::vector<Case> cases() {
    std::vector<Case> chosen{{"rapids", "1.22.0"}, {"nixl-1.22", "1.22.0"}, {"nixl-1.23", "1.23.0"}};
    std::erase_if(chosen, [](const Case &one) {
        const std::string word = std::string(one.name) + " ";
        return std::string(UCX_GAUDI_TEST_ENGINES " ").find(word) == std::string::npos;
    });
    return chosen;
}

INSTANTIATE_TEST_SUITE_P(Fetched, Ucx, ::testing::ValuesIn(cases()), [](const auto &one) {
    std::string name = one.param.name;
    std::erase_if(name, [](char letter) { return letter == '-' || letter == '.'; });
    return name;
});

TEST(FetchedUcx, directory_names_a_ucx) {
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

TEST(FetchedUcx, hca_without_ib_module_is_refused) {
    for (const char *name : {"rapids", "rapids-1.22", UCX_GAUDI_ENGINES "/rapids-1.22"}) {
        const Result got = result(run({"--hca", "--ucx", name}, {"echo", "started"}));
        EXPECT_EQ(got.code, 2);
        EXPECT_EQ(got.out, "");
        EXPECT_EQ(got.err, std::string("ucx_gaudi: --hca: the UCX of --ucx ") + name +
                               " cannot use an HCA: there is no libuct_ib in " UCX_GAUDI_ENGINES
                               "/rapids-1.22/libucx/lib/ucx; use --ucx nixl-1.22 or --ucx nixl-1.23\n");
    }
}

TEST(FetchedUcx, info_lists_all) {
    const Result got = result({"info"});
    EXPECT_EQ(got.code, 0);
    EXPECT_THAT(got.out,
                HasSubstr("1.22.0, " UCX_GAUDI_ENGINES "/rapids-1.22/libucx/lib/libucs.so.0 (--ucx rapids-1.22)\n"));
    EXPECT_THAT(got.out, HasSubstr("1.23.0, " UCX_GAUDI_ENGINES "/nixl-1.23/"));
    EXPECT_THAT(got.out,
                HasSubstr("1.21.0, " UCX_GAUDI_ENGINES "/rapids-1.21/libucx/lib/libucs.so.0 (--ucx rapids-1.21)\n"
                          "                   it is older than 1.22 and does not load modules from UCX_PLUGIN_PATH; "
                          "use 1.22 or later"));
}

TEST(FetchedUcx, old_ucx_is_refused) {
    const Result got = result(run({"--ucx", "rapids-1.21"}, {"echo", "started"}));
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, HasSubstr("ucx_gaudi: --ucx rapids-1.21: UCX 1.21.0 in " UCX_GAUDI_ENGINES
                                   "/rapids-1.21/libucx/lib is older than 1.22 "));
}

class Prefix : public ::testing::TestWithParam<const char *> {};

TEST_P(Prefix, installed_ucx_is_found_with_its_programs) {
    namespace fs = std::filesystem;
    const fs::path prefix = fs::path(::testing::TempDir()) / ("prefix-" + std::to_string(::getpid()));
    const fs::path libraries = prefix / GetParam();
    fs::create_directories(libraries.parent_path());
    fs::create_symlink(UCX_GAUDI_ENGINES "/rapids-1.22/libucx/lib", libraries);
    fs::create_symlink(UCX_GAUDI_ENGINES "/rapids-1.22/libucx/bin", prefix / "bin");
    const Result got = result(run({"--ucx", prefix}, {"sh", "-c", "command -v ucx_info && ucx_info -v"}));
    fs::remove_all(prefix);
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr((prefix / "bin" / "ucx_info").string()));
    EXPECT_THAT(got.out, HasSubstr("# Library version: 1.22.0\n"));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Prefix, ::testing::Values("lib", "lib64", "lib/x86_64-linux-gnu"),
                         [](const auto &one) {
                             return std::string(one.index == 0 ? "lib" : one.index == 1 ? "lib64" : "multiarch");
                         });

} // namespace
} // namespace cli
