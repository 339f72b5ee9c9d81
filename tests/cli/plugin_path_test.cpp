// SPDX-License-Identifier: BSD-3-Clause
// plugin-path --for, on the fetched UCX builds and on libraries that stand in for a client's.
#include "command.h"
#include "fake_ucx.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

namespace cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModules = (fs::path(UCX_GAUDI_COMMAND).parent_path().parent_path() / "lib/ucx-gaudi").string();

void expect_path(const std::string &client, const std::string &sentence) {
    const Result got = result({"plugin-path", "--for", client});
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.out, kModules + "\n");
    EXPECT_THAT(got.err, AllOf(StartsWith("ucx_gaudi: "), HasSubstr(sentence)));
}

void expect_refusal(const std::string &client, const std::string &sentence) {
    const Result got = result({"plugin-path", "--for", client});
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, AllOf(StartsWith("ucx_gaudi: "), HasSubstr(sentence)));
    EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
}

class PluginPath : public ::testing::Test {
protected:
    PluginPath() {
        ::unsetenv("UCX_PLUGIN_PATH");
        ::unsetenv("UCX_MODULES");
        fs::create_directories(m_dir);
    }
    ~PluginPath() override { fs::remove_all(m_dir); }

    /// An mpirun in PATH with a libmpi that is a copy of `library`.
    void install_mpi(const fs::path &library) const {
        fs::create_directories(m_dir / "bin");
        fs::create_directories(m_dir / "lib");
        std::ofstream(m_dir / "bin/mpirun") << "#!/bin/sh\n";
        fs::permissions(m_dir / "bin/mpirun", fs::perms::owner_all);
        fs::copy_file(library, m_dir / "lib/libmpi.so.40");
        ::setenv("PATH", (m_dir / "bin").c_str(), 1);
    }

    const fs::path m_dir = fs::temp_directory_path() / ("cli-plugin-path-test-" + std::to_string(::getpid()));
};

TEST_F(PluginPath, module_loads_in_each_new_ucx) {
    expect_path(UCX_GAUDI_ENGINES "/rapids-1.22", "UCX 1.22.0 of " UCX_GAUDI_ENGINES "/rapids-1.22/libucx/lib loads");
    expect_path(UCX_GAUDI_ENGINES "/nixl-1.23", "UCX 1.23.0 of " UCX_GAUDI_ENGINES "/nixl-1.23/nixl_cu12.libs loads");
}

TEST_F(PluginPath, wheel_of_nixl_is_found_among_the_packages_of_python) {
    ::setenv("PYTHONPATH", UCX_GAUDI_ENGINES "/nixl-1.22:" UCX_GAUDI_ENGINES "/rapids-1.22", 1);
    expect_path("nixl", "UCX 1.22.0 of the wheel nixl_cu12 loads the modules (" UCX_GAUDI_ENGINES
                        "/nixl-1.22/nixl_cu12.libs/libucp-");
    ::setenv("PYTHONPATH", UCX_GAUDI_ENGINES "/rapids-1.22", 1);
    expect_refusal("nixl", "--for nixl: python3 finds no NIXL wheel with a UCX inside; ");
}

TEST_F(PluginPath, old_ucx_is_refused) {
    expect_refusal(UCX_GAUDI_ENGINES "/rapids-1.21", "/rapids-1.21/libucx/lib/libucp.so.0): it is older than 1.22 ");
}

TEST_F(PluginPath, ucx_that_leaves_the_module_out_is_refused) {
    ::setenv("UCX_MODULES", "ib,cma", 1);
    expect_refusal(UCX_GAUDI_ENGINES "/rapids-1.22", "UCX_MODULES=ib,cma leaves gaudi out");
}

TEST_F(PluginPath, open_mpi_is_judged_by_the_ucx_that_it_loads) {
    install_mpi(FAKE_UCX_OLD);
    expect_refusal("openmpi", "UCX 1.21.0 of the Open MPI of " + (m_dir / "bin/mpirun").string() + " (" +
                                  (m_dir / "lib/libmpi.so.40").string() + "): it is older than 1.22 ");
}

TEST_F(PluginPath, open_mpi_without_ucx_is_refused) {
    install_mpi(SOFTGAUDI_LIBRARY);
    expect_refusal("openmpi", (m_dir / "lib/libmpi.so.40").string() + ": it does not use UCX");
}

TEST_F(PluginPath, missing_client_is_refused) {
    ::setenv("PATH", m_dir.c_str(), 1);
    expect_refusal("openmpi", "--for openmpi: there is no mpirun in PATH");
    expect_refusal("nixl", "--for nixl: python3 finds no NIXL wheel");
    expect_refusal(m_dir.string(), "--for " + m_dir.string() + ": there is no libucs in it");
    const Result got = result({"plugin-path", "--for", "/nowhere"});
    EXPECT_EQ(got.code, 2);
    EXPECT_THAT(got.err, HasSubstr("--for: /nowhere is neither nixl nor openmpi nor a directory; see "));
}

} // namespace
} // namespace cli
