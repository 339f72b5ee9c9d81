// SPDX-License-Identifier: BSD-3-Clause
// Our declarations against a real UCX: its debug information, as gdb reads it, and its public headers.
#include "ucx/layout.h"

#include "constants.h"
#include "ucx/abi.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace gaudi::ucx {
namespace {

/// Expressions for gdb, and their expected values.
using Questions = std::map<std::string, long>;

std::string file_of(const std::string &library) {
    const std::string wheel = UCX_GAUDI_ENGINES "/rapids-1.22/libucx/";
    return library == "perftest" ? wheel + "bin/ucx_perftest" : wheel + "lib/lib" + library + ".so.0";
}

std::string output_of(const std::string &command) {
    std::FILE *pipe = ::popen((command + " 2>&1").c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string text;
    char buffer[4096];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
        text.append(buffer, got);
    EXPECT_EQ(::pclose(pipe), 0) << text;
    return text;
}

void ask(const std::string &library, const Questions &questions) {
    const std::string script = testing::TempDir() + "ucx_layout_" + std::to_string(::getpid()) + ".gdb";
    {
        std::ofstream lines(script);
        for (const auto &[expression, expected] : questions)
            lines << "printf \"%ld = " << expression << "\\n\", (long)(" << expression << ")\n";
    }
    const std::string text = output_of("gdb -batch -nx -x " + script + " " + file_of(library));
    std::filesystem::remove(script);

    std::map<std::string, long> answers;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (const std::size_t equals = line.find(" = "); equals != std::string::npos)
            answers[line.substr(equals + 3)] = std::strtol(line.c_str(), nullptr, 10);
    }
    EXPECT_EQ(answers.size(), questions.size()) << text.substr(text.size() > 500 ? text.size() - 500 : 0);
    for (const auto &[expression, expected] : questions) {
        ASSERT_EQ(answers.count(expression), 1U) << expression;
        EXPECT_EQ(answers[expression], expected) << expression;
    }
}

/// Fields belong to the struct above them, which names the library and UCX's name of the struct.
Questions layout_questions(const std::string &wanted) {
    Questions questions;
    std::string library, ucx_name;
#define SIZED(where, type, name, bytes)                                                                                \
    library = #where;                                                                                                  \
    ucx_name = #name;                                                                                                  \
    if (library == wanted)                                                                                             \
        questions["sizeof(" + ucx_name + ")"] = static_cast<long>(sizeof(type));
#define TABLE(where, type, name, bytes)                                                                                \
    library = #where;                                                                                                  \
    ucx_name = #name;
#define FIELD(type, field, bytes)                                                                                      \
    if (library == wanted)                                                                                             \
        questions["&((" + ucx_name + " *)0)->" #field] = static_cast<long>(offsetof(type, field));
    GAUDI_UCX_LAYOUT(SIZED, TABLE, FIELD)
#undef SIZED
#undef TABLE
#undef FIELD
    EXPECT_FALSE(questions.empty());
    return questions;
}

class Layout : public testing::TestWithParam<const char *> {};

TEST_P(Layout, declaration_matches_the_debug_information) { ask(GetParam(), layout_questions(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Libraries, Layout, testing::Values("ucs", "uct", "ucm", "perftest"),
                         [](const auto &test) { return std::string(test.param); });

TEST(PerftestLayout, declared_part_is_contiguous_in_the_context) {
    const std::string uct = "&((struct ucx_perf_context *)0)->uct.";
    Questions questions;
#define DISTANCE(field)                                                                                                \
    questions["(long)" + uct + #field " - (long)" + uct + "cmpt"] =                                                    \
        static_cast<long>(offsetof(ucx_perf_uct_part, field));
    DISTANCE(md)
    DISTANCE(worker)
    DISTANCE(iface)
    DISTANCE(peers)
    DISTANCE(send_mem)
    DISTANCE(recv_mem)
#undef DISTANCE
    ask("perftest", questions);
}

TEST(Constants, values_match_the_public_headers) {
#define ROW(name) {#name, static_cast<long>(name)},
    const Constant ours[] = {UCX_PUBLIC_CONSTANTS(ROW)};
#undef ROW
    std::size_t row = 0;
    for (const Constant &constant : ours) {
        ASSERT_STREQ(public_constants_of_ucx[row].name, constant.name);
        EXPECT_EQ(public_constants_of_ucx[row].value, constant.value) << constant.name;
        ++row;
    }
    EXPECT_EQ(public_constants_of_ucx[row].name, nullptr);
}

TEST(Constants, values_match_the_debug_information) {
    Questions questions;
#define QUESTION(name) questions[#name] = static_cast<long>(name);
    UCX_PRIVATE_CONSTANTS(QUESTION)
#undef QUESTION
    ask("ucp", questions);
}

} // namespace
} // namespace gaudi::ucx
