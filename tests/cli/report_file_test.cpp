// SPDX-License-Identifier: BSD-3-Clause
// Where `verify --json` writes its report.
#include "cli/report_file.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace {

namespace fs = std::filesystem;
using gaudi::cli::ReportFile;

class ReportFileTest : public ::testing::Test {
protected:
    ReportFileTest() {
        char name[] = "/dev/shm/report-file-test-XXXXXX";
        m_directory = ::mkdtemp(name);
    }
    ~ReportFileTest() override { fs::remove_all(m_directory); }

    std::string path(const std::string &name = "report.json") const { return m_directory + "/" + name; }
    static void fill(const std::string &name, const std::string &text) { std::ofstream(name) << text; }
    static std::string contents(const std::string &name) {
        std::ifstream in(name);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static unsigned mode(const std::string &name) {
        struct stat status {};
        EXPECT_EQ(::stat(name.c_str(), &status), 0);
        return status.st_mode & 07777;
    }
    std::set<std::string> names() const {
        std::set<std::string> found;
        for (const auto &entry : fs::directory_iterator(m_directory))
            found.insert(entry.path().filename());
        return found;
    }
    static void write(const std::string &name, const std::string &text) {
        const auto file = ReportFile::open(name);
        ASSERT_TRUE(file) << file.error();
        const auto written = file->write(text);
        EXPECT_TRUE(written) << written.error();
    }

    std::string m_directory;
};

TEST_F(ReportFileTest, new_file_has_the_usual_mode_and_is_alone) {
    ::umask(027);
    write(path(), "text");
    EXPECT_EQ(contents(path()), "text");
    EXPECT_EQ(mode(path()), 0640u);
    EXPECT_EQ(names(), std::set<std::string>{"report.json"});
}

TEST_F(ReportFileTest, replaced_file_keeps_its_mode_and_stays_until_the_end) {
    fill(path(), "a longer old text");
    ::chmod(path().c_str(), 0604);
    const auto file = ReportFile::open(path());
    ASSERT_TRUE(file) << file.error();
    EXPECT_EQ(contents(path()), "a longer old text");
    EXPECT_EQ(names(), std::set<std::string>{"report.json"}) << "a killed program leaves nothing else behind";
    EXPECT_TRUE(file->write("text"));
    EXPECT_EQ(contents(path()), "text");
    EXPECT_EQ(mode(path()), 0604u);
    EXPECT_EQ(names(), std::set<std::string>{"report.json"});
}

TEST_F(ReportFileTest, other_files_with_similar_names_are_not_touched) {
    const std::string taken = path("report.json." + std::to_string(::getpid()) + "-0");
    fill(taken, "of another container");
    fill(path("report.json.new"), "of the user");
    write(path(), "text");
    EXPECT_EQ(contents(path()), "text");
    EXPECT_EQ(contents(taken), "of another container");
    EXPECT_EQ(contents(path("report.json.new")), "of the user");
}

TEST_F(ReportFileTest, file_behind_a_link_is_replaced_and_the_link_stays) {
    fill(path("target"), "old");
    fs::create_symlink("target", path());
    write(path(), "text");
    EXPECT_TRUE(fs::is_symlink(path()));
    EXPECT_EQ(contents(path("target")), "text");
}

TEST_F(ReportFileTest, own_output_is_appended_to) {
    fill(path("output"), "");
    const int saved = ::dup(STDOUT_FILENO), output = ::open(path("output").c_str(), O_WRONLY);
    ::dup2(output, STDOUT_FILENO);
    EXPECT_EQ(::write(STDOUT_FILENO, "table\n", 6), 6);
    write("/dev/stdout", "text");
    ::dup2(saved, STDOUT_FILENO);
    EXPECT_EQ(contents(path("output")), "table\ntext");
}

TEST_F(ReportFileTest, device_and_pipe_are_written_to) {
    write("/dev/null", "text");
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    write("/dev/fd/" + std::to_string(ends[1]), "text");
    char got[8] = {};
    EXPECT_EQ(::read(ends[0], got, sizeof got), 4);
    EXPECT_STREQ(got, "text");
}

TEST_F(ReportFileTest, unwritable_place_is_one_sentence) {
    EXPECT_EQ(ReportFile::open("/nonexistent/a").error(), "cannot write /nonexistent/a: No such file or directory");
    EXPECT_EQ(ReportFile::open(m_directory).error(), "cannot write " + m_directory + ": Is a directory");
    EXPECT_EQ(ReportFile::open("/proc/report").error(), "cannot write /proc/report: No such file or directory");
}

TEST_F(ReportFileTest, failed_write_leaves_the_old_file_and_no_other) {
    fill(path(), "old");
    const auto file = ReportFile::open(path());
    ASSERT_TRUE(file) << file.error();
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4, 4};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const auto written = file->write("a text that does not fit");
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error(), "cannot write " + path() + ": File too large");
    EXPECT_EQ(contents(path()), "old");
    EXPECT_EQ(names(), std::set<std::string>{"report.json"});
}

} // namespace
