// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi enable and disable on files of the test's own.
#include "command.h"
#include "fake_ucx.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

namespace cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModules = (fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path() / "lib" / "ucx-gaudi").string();
const std::string kLine = "UCX_PLUGIN_PATH=" + kModules + "\n";

std::string content(const fs::path &file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

class Enable : public ::testing::Test {
protected:
    Enable() {
        fs::create_directories(m_home);
        ::setenv("HOME", m_home.c_str(), 1);
        for (const char *variable : {"VIRTUAL_ENV", "UCX_PLUGIN_PATH", "UCX_CONFIG_DIR"})
            ::unsetenv(variable);
    }
    ~Enable() override { fs::remove_all(m_root); }

    void write(const std::string &text) const { std::ofstream(m_file) << text; }
    static void expect_done(const Words &words) {
        const Result got = result(words);
        EXPECT_EQ(got.code, 0);
        EXPECT_EQ(got.err, "");
    }
    static Result expect_refused(const Words &words, const std::string &sentence) {
        Result got = result(words);
        EXPECT_EQ(got.code, 1);
        EXPECT_THAT(got.err, AllOf(StartsWith("ucx_gaudi: "), HasSubstr(sentence)));
        return got;
    }

    const fs::path m_root = fs::temp_directory_path() / ("cli-enable-test-" + std::to_string(::getpid()));
    const fs::path m_home = m_root / "home";
    const fs::path m_file = m_home / "ucx.conf";
    const fs::path m_venv = m_root / "venv";
    const fs::path m_packages = m_venv / "lib" / "python3.11" / "site-packages";
};

TEST_F(Enable, new_file_is_made_and_removed) {
    expect_done({"enable", "--user"});
    EXPECT_THAT(content(m_file), ::testing::EndsWith(".\n" + kLine));
    EXPECT_EQ(fs::status(m_file).permissions(), fs::perms(0644));
    expect_done({"disable", "--user"});
    EXPECT_TRUE(fs::is_empty(m_home));
}

TEST_F(Enable, other_content_and_permissions_are_kept) {
    const std::string text = "# mine\n\nUCX_LOG_LEVEL=info\n[part]\nCPU model=Grace\nUCX_TLS=tcp\n";
    write(text);
    fs::permissions(m_file, fs::perms(0600));
    expect_done({"enable", "--user"});
    EXPECT_THAT(content(m_file), ::testing::EndsWith(kLine + text)); // in front of the section, which is conditional
    EXPECT_EQ(fs::status(m_file).permissions(), fs::perms(0600));
    expect_done({"disable", "--user"});
    EXPECT_EQ(content(m_file), text);
    EXPECT_EQ(fs::status(m_file).permissions(), fs::perms(0600));
}

TEST_F(Enable, empty_file_of_the_user_stays) {
    write("");
    expect_done({"enable", "--user"});
    expect_done({"disable", "--user"});
    EXPECT_TRUE(fs::exists(m_file));
    EXPECT_EQ(content(m_file), "");
}

TEST_F(Enable, second_time_changes_nothing) {
    expect_done({"enable", "--user"});
    const std::string before = content(m_file);
    EXPECT_EQ(result({"enable", "--user"}).out, "enabled already in " + m_file.string() + "\n");
    EXPECT_EQ(content(m_file), before);
    expect_done({"disable", "--user"});
    expect_done({"disable", "--user"});
    EXPECT_TRUE(fs::is_empty(m_home));
}

TEST_F(Enable, own_line_of_another_installation_is_replaced) {
    expect_done({"enable", "--user"});
    std::string text = content(m_file);
    text.replace(text.find(kModules), kModules.size(), "/elsewhere");
    write(text);
    expect_done({"enable", "--user"});
    EXPECT_THAT(content(m_file), HasSubstr(kLine));
    EXPECT_THAT(content(m_file), ::testing::Not(HasSubstr("/elsewhere")));
}

TEST_F(Enable, setting_of_others_is_refused) {
    write("UCX_PLUGIN_PATH = /theirs\n");
    expect_refused({"enable", "--user"}, m_file.string() + " sets UCX_PLUGIN_PATH=/theirs already; add :" + kModules);
    EXPECT_EQ(content(m_file), "UCX_PLUGIN_PATH = /theirs\n");
    expect_done({"disable", "--user"});
    write("UCX_PLUGIN_PATH=/theirs:" + kModules + "\n");
    expect_done({"enable", "--user"});
    expect_refused({"disable", "--user"}, "remove it by hand");
}

TEST_F(Enable, symbolic_link_is_refused) {
    std::ofstream(m_root / "target") << "x\n";
    fs::create_symlink(m_root / "target", m_file);
    expect_refused({"enable", "--user"}, "is not a regular file");
    EXPECT_EQ(content(m_root / "target"), "x\n");
}

TEST_F(Enable, file_of_a_wheel_is_refused_and_the_line_printed) {
    add_fake_ucx(m_packages / "libucx" / "lib");
    const fs::path file = m_packages / "libucx" / "etc" / "ucx" / "ucx.conf";
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "UCX_TLS=tcp\n";
    fs::create_directory(m_packages / "libucx_cu13-1.22.0.dist-info");
    std::ofstream(m_packages / "libucx_cu13-1.22.0.dist-info" / "RECORD") << "libucx/etc/ucx/ucx.conf,sha256=x,12\n";
    const Result got = expect_refused({"enable", "--venv", m_venv.string()},
                                      file.string() + " belongs to the package libucx_cu13-1.22.0");
    EXPECT_EQ(got.out, kLine);
    EXPECT_EQ(content(file), "UCX_TLS=tcp\n");
}

TEST_F(Enable, file_of_a_debian_package_is_refused) {
    fs::create_directories(m_root / "bin");
    std::ofstream(m_root / "bin" / "dpkg")
        << "#!/bin/sh\n[ \"$1 $2\" = \"-S " + m_file.string() + "\" ] && echo \"ucx: $2\"\n";
    fs::permissions(m_root / "bin" / "dpkg", fs::perms(0755));
    ::setenv("PATH", ((m_root / "bin").string() + ":" + std::getenv("PATH")).c_str(), 1);
    EXPECT_EQ(expect_refused({"enable", "--user"}, "belongs to the package ucx,").out, kLine);
    EXPECT_FALSE(fs::exists(m_file));
}

TEST_F(Enable, venv_file_is_beside_the_packages_and_leaves_nothing) {
    add_fake_ucx(m_packages / "nixl_cu12.libs", FAKE_UCX, "libucs-14c218c5.so.0.0.0", "libucp-14c218c5.so.0.0.0");
    ::setenv("VIRTUAL_ENV", m_venv.c_str(), 1);
    for (const Words &words :
         {Words{"enable"}, Words{"enable", "--venv"}, Words{"enable", "--venv", m_venv.string()}}) {
        expect_done(words);
        EXPECT_THAT(content(m_packages / "etc" / "ucx" / "ucx.conf"), HasSubstr(kLine));
        expect_done({"disable"});
        EXPECT_FALSE(fs::exists(m_packages / "etc"));
    }
    EXPECT_TRUE(fs::is_empty(m_home));
}

TEST_F(Enable, venv_without_usable_ucx_is_refused) {
    expect_refused({"enable", "--venv"}, "no virtual environment is active");
    expect_refused({"enable", "--venv", "/no/such"}, "--venv /no/such: No such file or directory");
    fs::create_directories(m_packages);
    expect_refused({"enable", "--venv", m_venv.string()}, "there is no UCX in the packages of " + m_venv.string());
    add_fake_ucx(m_packages / "libucx" / "lib", FAKE_UCX_OLD);
    expect_refused({"enable", "--venv", m_venv.string()},
                   "UCX 1.21.0 in " + (m_packages / "libucx/lib").string() + " is older than 1.22");
}

TEST_F(Enable, unusable_ucx_is_named_beside_a_usable_one) {
    add_fake_ucx(m_packages / "libucx" / "lib", FAKE_UCX_OLD);
    add_fake_ucx(m_packages / "nixl_cu12.libs", FAKE_UCX, "libucs-14c218c5.so.0.0.0", "libucp-14c218c5.so.0.0.0");
    const Result got = result({"enable", "--venv", m_venv.string()});
    EXPECT_EQ(got.code, 0);
    EXPECT_THAT(got.err, StartsWith("ucx_gaudi: UCX 1.21.0 in " + (m_packages / "libucx/lib").string() + " is older"));
    EXPECT_EQ(got.out, "enabled in " + (m_packages / "etc/ucx/ucx.conf").string() + "\n");
    EXPECT_FALSE(fs::exists(m_packages / "libucx" / "etc"));
}

TEST_F(Enable, disable_needs_no_modules) {
    expect_done({"enable", "--user"});
    fs::create_directories(m_root / "bin");
    const fs::path alone = m_root / "bin" / "ucx_gaudi"; // without a directory lib beside bin
    fs::copy_file(UCX_GAUDI_COMMAND, alone);
    const Result refused = result({"enable", "--user"}, alone.string());
    EXPECT_THAT(refused.err, HasSubstr((m_root / "lib/ucx-gaudi").string() + " is missing"));
    EXPECT_EQ(result({"disable", "--user"}, alone.string()).out, "disabled in " + m_file.string() + "\n");
    EXPECT_TRUE(fs::is_empty(m_home));
}

TEST_F(Enable, missing_home_is_refused) {
    ::unsetenv("HOME");
    expect_refused({"enable", "--user"}, "--user: HOME is not set");
}

TEST_F(Enable, system_file_is_in_etc) {
    // In a namespace with an /etc of its own.
    Command command({"-rm", "/bin/sh", "-c",
                     "mount -t tmpfs etc /etc && '" UCX_GAUDI_COMMAND
                     "' enable --system && cat /etc/ucx/ucx.conf && '" UCX_GAUDI_COMMAND
                     "' disable --system && ls -A /etc"},
                    "/usr/bin/unshare");
    const std::string out = command.out().rest();
    EXPECT_EQ(command.wait(), 0) << command.err().rest();
    EXPECT_THAT(out, AllOf(StartsWith("enabled in /etc/ucx/ucx.conf\n"),
                           ::testing::EndsWith(kLine + "disabled in /etc/ucx/ucx.conf\n")));
}

} // namespace
} // namespace cli
