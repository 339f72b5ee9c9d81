// SPDX-License-Identifier: BSD-3-Clause
// The built modules in real UCX libraries, loaded into this process.
#include "engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <link.h>

#include <set>
#include <sstream>

namespace gaudi::ucx {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// What UCX logs, which goes to stdout. A warning fails the test.
class Output {
public:
    Output() { testing::internal::CaptureStdout(); }
    std::string text() {
        std::string lines = testing::internal::GetCapturedStdout();
        std::istringstream stream(lines);
        std::string line, warnings;
        while (std::getline(stream, line)) {
            if (line.find(" WARN ") != std::string::npos || line.find(" ERROR ") != std::string::npos)
                warnings += line + "\n";
        }
        EXPECT_EQ(warnings, "");
        return lines;
    }
};

std::set<std::string> loaded_cores() {
    std::set<std::string> found;
    ::dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *data) {
            if (std::string(info->dlpi_name).find("libgaudi-core.so") != std::string::npos)
                static_cast<std::set<std::string> *>(data)->insert(info->dlpi_name);
            return 0;
        },
        &found);
    return found;
}

TEST(Load, rapids_wheel_loads_the_module) {
    set_environment("debug");
    Output output;
    Engine::rapids().components();
    EXPECT_THAT(output.text(),
                ContainsRegex("serves UCX 1\\.22\\.0 \\(.*/libucs\\.so\\), operation tables of 1\\.22\\.0"));
}

TEST(Load, ucx_1_22_of_nixl_loads_the_module) {
    set_environment("debug");
    Output output;
    Engine::nixl_1_22().components();
    EXPECT_THAT(output.text(),
                ContainsRegex("serves UCX 1\\.22\\.0 \\(.*/libucs-.*\\), operation tables of 1\\.22\\.x"));
}

TEST(Load, ucx_1_23_of_nixl_loads_the_module) {
    set_environment("debug");
    Output output;
    Engine::nixl_1_23().components();
    EXPECT_THAT(output.text(), ContainsRegex("serves UCX 1\\.23\\.0 \\(.*/libucs-.*\\), operation tables of 1\\.23"));
}

TEST(Load, default_log_level_prints_nothing) {
    set_environment("warn");
    Output output;
    Engine::rapids().components();
    EXPECT_EQ(output.text(), "");
    EXPECT_EQ(loaded_cores().size(), 1U);
}

TEST(Load, tested_ucx_is_not_logged_as_newer) {
    set_environment("info");
    Output output;
    Engine::nixl_1_23().components();
    EXPECT_THAT(output.text(), Not(HasSubstr("newer")));
}

TEST(Load, two_ucx_in_one_process_share_one_core) {
    set_environment("debug");
    Output output;
    const Engine rapids = Engine::rapids();
    const Engine nixl = Engine::nixl_1_23();
    ASSERT_NE(rapids.ucs(), nixl.ucs());
    rapids.components();
    nixl.components();
    const std::string text = output.text();
    EXPECT_THAT(text, ContainsRegex("serves UCX 1\\.22\\.0 \\(.*/libucs\\.so\\)"));
    EXPECT_THAT(text, ContainsRegex("serves UCX 1\\.23\\.0 \\(.*/libucs-.*\\)"));
    EXPECT_EQ(loaded_cores().size(), 1U);
}

TEST(Load, three_ucx_in_one_process_share_one_core) {
    set_environment("debug");
    Output output;
    const Engine engines[] = {Engine::nixl_1_23(), Engine::rapids(), Engine::nixl_1_22()};
    for (const Engine &engine : engines)
        engine.components();
    const std::string text = output.text();
    for (const char *tables : {"tables of 1\\.22\\.0", "tables of 1\\.22\\.x", "tables of 1\\.23"})
        EXPECT_THAT(text, ContainsRegex(tables));
    EXPECT_EQ(loaded_cores().size(), 1U);
}

} // namespace
} // namespace gaudi::ucx
