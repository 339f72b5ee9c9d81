// SPDX-License-Identifier: BSD-3-Clause
//
// The built modules in real UCX libraries, loaded into this process.

#include <link.h>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine.h"

namespace gaudi::ucx {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// UCX logs to stdout.
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

TEST(LoadTest, TheRapidsWheelAsItsPythonLoaderLoadsIt) {
    set_environment("debug");
    Output output;
    Engine::rapids().components();
    EXPECT_THAT(output.text(),
                ContainsRegex("serves UCX 1\\.22\\.0 \\(.*/libucs\\.so\\), operation tables of 1\\.22\\.0"));
}

TEST(LoadTest, TheUcx122InsideNixl) {
    set_environment("debug");
    Output output;
    Engine::nixl_1_22().components();
    EXPECT_THAT(output.text(),
                ContainsRegex("serves UCX 1\\.22\\.0 \\(.*/libucs-.*\\), operation tables of 1\\.22\\.x"));
}

TEST(LoadTest, TheUcx123InsideNixl) {
    set_environment("debug");
    Output output;
    Engine::nixl_1_23().components();
    EXPECT_THAT(output.text(), ContainsRegex("serves UCX 1\\.23\\.0 \\(.*/libucs-.*\\), operation tables of 1\\.23"));
}

TEST(LoadTest, SaysNothingAtTheDefaultLevel) {
    set_environment("warn");
    Output output;
    Engine::rapids().components();
    EXPECT_EQ(output.text(), "");
    EXPECT_EQ(loaded_cores().size(), 1U);
}

TEST(LoadTest, ATestedUcxIsNotCalledNew) {
    set_environment("info");
    Output output;
    Engine::nixl_1_23().components();
    EXPECT_THAT(output.text(), Not(HasSubstr("newer")));
}

TEST(LoadTest, TwoUcxInOneProcessShareOneCore) {
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

TEST(LoadTest, ThreeUcxInOneProcess) {
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
