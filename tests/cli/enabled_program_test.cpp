// SPDX-License-Identifier: BSD-3-Clause
// A stock UCX program that loads the modules by ucx.conf, with no variable set.
#include "command.h"

#include <gmock/gmock.h>

namespace cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const fs::path kUcx = UCX_GAUDI_ENGINES "/rapids-1.22/libucx";

class EnabledProgram : public ::testing::Test {
protected:
    EnabledProgram() {
        fs::create_directories(m_root / "home");
        fs::create_directories(m_root / "cards");
        ::setenv("HOME", (m_root / "home").c_str(), 1);
        ::setenv("GAUDI_THUNK", SOFTGAUDI_LIBRARY, 1);
        ::setenv("SOFTGAUDI_DIR", (m_root / "cards").c_str(), 1);
        for (const char *variable : {"UCX_PLUGIN_PATH", "UCX_CONFIG_DIR", "VIRTUAL_ENV"})
            ::unsetenv(variable);
        fs::current_path(m_root); // UCX reads ./ucx.conf as well
    }
    ~EnabledProgram() override { fs::remove_all(m_root); }

    /// The memory domains that a program with the libraries in this directory has.
    static std::string domains(const fs::path &libraries) {
        ::setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
        const Result got = result({"-d"}, (kUcx / "bin" / "ucx_info").string());
        ::unsetenv("LD_LIBRARY_PATH");
        EXPECT_EQ(got.code, 0) << got.err;
        return got.out;
    }
    static void expect_switched(const fs::path &libraries, const Words &where) {
        const auto switch_it = [&](const char *command) {
            Words words = {command};
            words.insert(words.end(), where.begin(), where.end());
            const Result got = result(words);
            EXPECT_EQ(got.code, 0) << got.err;
        };
        EXPECT_THAT(domains(libraries), Not(HasSubstr("gaudi_copy")));
        switch_it("enable");
        EXPECT_THAT(domains(libraries), HasSubstr("# Memory domain: gaudi_copy\n"));
        switch_it("disable");
        EXPECT_THAT(domains(libraries), Not(HasSubstr("gaudi_copy")));
    }

    const fs::path m_root = "/dev/shm/cli-enabled-test-" + std::to_string(::getpid());
};

TEST_F(EnabledProgram, user_file_loads_the_modules) { expect_switched(kUcx / "lib", {"--user"}); }

TEST_F(EnabledProgram, file_of_a_virtual_environment_loads_the_modules) {
    const fs::path libraries = m_root / "venv" / "lib" / "python3.11" / "site-packages" / "libucx" / "lib";
    fs::create_directories(libraries);
    for (const char *name : {"libucs.so.0", "libuct.so.0", "libucp.so.0", "libucm.so.0"})
        fs::create_symlink(kUcx / "lib" / name, libraries / name);
    expect_switched(libraries, {"--venv", (m_root / "venv").string()});
}

} // namespace
} // namespace cli
