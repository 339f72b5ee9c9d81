// SPDX-License-Identifier: BSD-3-Clause
// UCX logs about the devices that modules register. A stock program with Gaudi memory ends well at every log level,
// whatever the topology shows of the cards.
#include "command.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

namespace cli {
namespace {

using ::testing::HasSubstr;

struct Case {
    std::string ucx;
    std::string level;
    Words options;

    std::string name() const {
        std::string name = ucx + '_' + level;
        for (const std::string &option : options)
            name += option;
        std::erase_if(name, [](char letter) { return letter == '-' || letter == '.'; });
        return name;
    }
};
void PrintTo(const Case &one, std::ostream *out) { *out << one.name(); }

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const char *ucx : {"rapids", "nixl-1.22", "nixl-1.23"})
        for (const char *level : {"debug", "data", "trace"})
            for (const Words &options : {Words{}, Words{"--topology"}, Words{"--hca"}, Words{"--hca", "--topology"}})
                if (options.empty() || options[0] != "--hca" || ucx != std::string("rapids")) // it has no ib module
                    all.push_back({ucx, level, options});
    return all;
}

class LogLevel : public ::testing::TestWithParam<Case> {};

TEST_P(LogLevel, program_with_gaudi_memory_ends_at_a_verbose_level) {
    ::unsetenv("UCX_PLUGIN_PATH");
    for (const char *cards : {"1", "8"}) {
        Words options = GetParam().options;
        options.insert(options.end(), {"--ucx", GetParam().ucx, "--cards", cards});
        const Result got =
            result(run(options, {"env", "UCX_LOG_LEVEL=" + GetParam().level, "timeout", "100", "ucx_perftest", "-l",
                                 "-t", "tag_lat", "-m", "gaudi", "-n", "5", "-w", "1", "-s", "4096"}));
        EXPECT_EQ(got.code, 0) << cards << " cards";
        EXPECT_THAT(got.out, HasSubstr("\nFinal: ")) << cards << " cards";
    }
}

TEST(LogLevelDiag, ignored_record_has_one_line) {
    char name[] = "/dev/shm/record-log-test-XXXXXX";
    const fs::path directory = ::mkdtemp(name);
    fs::create_directory(directory / "ucx-gaudi");
    const fs::path record = directory / "ucx-gaudi" / "verified-a.json";
    std::ofstream(record) << "{";
    const auto lines = [&](const std::string &level) {
        const Result got = result(run({"--ucx", "rapids", "--cards", "2"},
                                      {"env", "XDG_CACHE_HOME=" + directory.string(), "UCX_LOG_LEVEL=" + level,
                                       "ucx_perftest", "-l", "-t", "tag_lat", "-m", "gaudi", "-n", "5", "-w", "1"}));
        EXPECT_EQ(got.code, 0);
        unsigned count = 0;
        for (std::size_t at = 0; (at = got.out.find(record.string(), at)) != std::string::npos; ++at)
            ++count;
        return count;
    };
    EXPECT_EQ(lines("diag"), 1u);
    EXPECT_EQ(lines("warn"), 0u);
    fs::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(Ucx, LogLevel, ::testing::ValuesIn(cases()), [](const auto &one) { return one.param.name(); });

} // namespace
} // namespace cli
