// SPDX-License-Identifier: BSD-3-Clause
// softgaudi_stat and softhca_stat as programs: options, exit codes, and what they do where there is no server to look at.
#include "hca.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

using namespace hca;

namespace {

struct Program {
    const char *name;
    const char *path;
    const char *variable; // names its directory
    const char *file;     // in that directory, with the counters
};

struct Output {
    int code;
    std::string out, problems;
};

std::string read_file(const std::string &path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

/// The file of a fabric is long and sparse.
std::string read_beginning(const std::string &path) {
    std::string bytes(1 << 16, '\0');
    std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
}

class StatProgram : public HcaTest, public ::testing::WithParamInterface<Program> {
protected:
    std::string directory() const { return std::getenv(GetParam().variable); }
    std::string file() const { return directory() + "/" + GetParam().file; }

    Output run(const std::string &arguments = "", const std::string &redirection = "") const {
        const std::string problems = fabric() + "/problems", out = fabric() + "/out";
        const std::string to = redirection.empty() ? " >" + out : redirection;
        const int status = std::system((GetParam().path + (" " + arguments) + to + " 2>" + problems).c_str());
        Output output{WIFEXITED(status) ? WEXITSTATUS(status) : 128, redirection.empty() ? read_file(out) : "",
                      read_file(problems)};
        std::filesystem::remove(problems);
        std::filesystem::remove(out);
        return output;
    }

    /// One sentence on stderr, exit code 1, and nothing else.
    void expect_refusal(const std::string &part) const {
        for (const char *option : {"", "--json"}) {
            const Output output = run(option);
            EXPECT_EQ(output.code, 1) << option;
            EXPECT_EQ(output.out, "");
            EXPECT_EQ(output.problems.find(GetParam().name + std::string(": ")), 0u) << output.problems;
            EXPECT_EQ(std::count(output.problems.begin(), output.problems.end(), '\n'), 1) << output.problems;
            EXPECT_NE(output.problems.find(part), std::string::npos) << output.problems;
        }
    }

    /// Creates the server and the fabric, as any program that uses them does.
    static void create() {
        EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8);
        const Node node;
    }
};

TEST_P(StatProgram, help_and_version_succeed) {
    for (const char *option : {"--help", "-h"}) {
        const Output output = run(option);
        EXPECT_EQ(output.code, 0) << option;
        EXPECT_EQ(output.out.find(std::string("usage: ") + GetParam().name + " [--json"), 0u) << output.out;
        EXPECT_EQ(output.problems, "");
    }
    const Output output = run("--version");
    EXPECT_EQ(output.code, 0);
    EXPECT_EQ(output.out.find(GetParam().name + std::string(" ")), 0u) << output.out;
    EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 1);
}

TEST_P(StatProgram, wrong_option_is_a_usage_mistake) {
    create();
    for (const char *bad : {"--yaml", "extra", "--json extra", "''"}) {
        const Output output = run(bad);
        EXPECT_EQ(output.code, 2) << bad;
        EXPECT_EQ(output.out, "") << bad;
        EXPECT_NE(output.problems.find("usage:"), std::string::npos) << output.problems;
        EXPECT_EQ(std::count(output.problems.begin(), output.problems.end(), '\n'), 1) << output.problems;
    }
}

TEST_P(StatProgram, missing_directory_is_not_created) {
    const std::string missing = fabric() + "/missing";
    set(GetParam().variable, missing);
    expect_refusal(std::string(GetParam().variable) + "=" + missing + ": No such file or directory");
    EXPECT_FALSE(std::filesystem::exists(missing));
}

TEST_P(StatProgram, missing_default_directory_is_not_created) {
    const std::string runtime = fabric() + "/runtime";
    std::filesystem::create_directory(runtime);
    set("XDG_RUNTIME_DIR", runtime);
    unsetenv(GetParam().variable);
    expect_refusal(std::string("set ") + GetParam().variable);
    EXPECT_TRUE(std::filesystem::is_empty(runtime));
}

TEST_P(StatProgram, file_in_place_of_the_directory_is_refused) {
    const std::string name = fabric() + "/file";
    std::ofstream(name) << "text";
    set(GetParam().variable, name);
    expect_refusal("is not a directory");
}

TEST_P(StatProgram, empty_directory_stays_empty) {
    const soft::FreshDirectory empty(GetParam().variable, "softgaudi");
    expect_refusal("yet");
    EXPECT_TRUE(std::filesystem::is_empty(empty.name()));
}

TEST_P(StatProgram, truncated_file_is_refused) {
    create();
    for (const unsigned size : {0u, 3u, 4096u}) {
        std::filesystem::resize_file(file(), size);
        expect_refusal(file() + ": truncated");
        EXPECT_EQ(std::filesystem::file_size(file()), size);
    }
}

TEST_P(StatProgram, foreign_file_is_refused) {
    create();
    std::fstream(file(), std::ios::in | std::ios::out | std::ios::binary) << "ELF?";
    expect_refusal("not written by this version");
    std::filesystem::remove(file());
    std::filesystem::create_directory(file());
    expect_refusal(file());
    std::filesystem::remove(file());
    ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
    expect_refusal(file());
}

TEST_P(StatProgram, report_changes_no_file) {
    create();
    const auto list = [&] {
        std::vector<std::string> files;
        for (const auto &entry : std::filesystem::recursive_directory_iterator(directory()))
            files.push_back(entry.path().string());
        std::sort(files.begin(), files.end());
        return files;
    };
    const auto before = list();
    const std::string bytes = read_beginning(file());
    const Output output = run("--json");
    EXPECT_EQ(output.code, 0) << output.problems;
    EXPECT_EQ(nlohmann::json::parse(output.out).at("schema"), 1);
    EXPECT_EQ(run().code, 0);
    EXPECT_EQ(list(), before);
    EXPECT_EQ(read_beginning(file()), bytes);
}

TEST_P(StatProgram, full_disk_behind_stdout_is_reported) {
    create();
    for (const char *option : {"--json", "--help", "--version"}) {
        const Output output = run(option, " >/dev/full");
        EXPECT_EQ(output.code, 1) << option;
        EXPECT_NE(output.problems.find("cannot write to stdout"), std::string::npos) << output.problems;
    }
}

INSTANTIATE_TEST_SUITE_P(Both, StatProgram,
                         ::testing::Values(Program{"softgaudi_stat", SOFTGAUDI_STAT, "SOFTGAUDI_DIR",
                                                   "GAUDI2-card0/state"},
                                           Program{"softhca_stat", SOFTHCA_STAT, "SOFTHCA_DIR", "fabric"}),
                         [](const auto &program) { return std::string(program.param.name); });

} // namespace
