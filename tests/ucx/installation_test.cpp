// SPDX-License-Identifier: BSD-3-Clause
// Modules that meet the core of another installation, and modules whose core is missing. OTHER_VERSION and OTHER_INTERFACE
// are installations of a ucx-gaudi 9.9.9.
#include "engine.h"
#include "program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <link.h>
#include <unistd.h>

#include <filesystem>

namespace gaudi::ucx {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Installation {
    std::string directory, version;
    unsigned interface;

    std::string core() const { return directory + "/libgaudi-core.so.1"; }
    std::string described(const std::string &file) const {
        return directory + "/" + file + " (ucx-gaudi " + version + ", interface " + std::to_string(interface) + ")";
    }
};

const Installation kOwn = {UCX_GAUDI_MODULES, UCX_GAUDI_VERSION, 1};
const Installation kOtherVersion = {OTHER_VERSION, "9.9.9", 1};
const Installation kOtherInterface = {OTHER_INTERFACE, "9.9.9", 2};

std::string refusal(const Installation &modules, const std::string &module, const Installation &core) {
    return "no Gaudi support: " + modules.described(module) + " cannot use " + core.described("libgaudi-core.so.1") +
           ", which this process loaded first; use the modules of one installation only";
}

std::string agreement(const Installation &modules, const std::string &module, const Installation &core) {
    return modules.directory + "/" + module + " (ucx-gaudi " + modules.version + ") works on " + core.core() +
           " (ucx-gaudi " + core.version + "), which this process loaded first";
}

/// ucx_info with the modules of an installation, in a process that has the core of another.
Finished run_info(const Installation &modules, const Installation &core, const std::string &level) {
    return run("LD_LIBRARY_PATH=" + kRapids + "/lib UCX_LOG_LEVEL=" + level + " UCX_PLUGIN_PATH=" + modules.directory,
               kRapids + "/bin/ucx_info -d", core.core());
}

class TwoInstallations : public testing::TestWithParam<bool> {
protected:
    /// The installation whose core comes first, and the other, in both orders.
    const Installation &first(const Installation &other) const { return GetParam() ? kOwn : other; }
    const Installation &second(const Installation &other) const { return GetParam() ? other : kOwn; }

    /// The components of a UCX that finds the modules of an installation.
    static std::vector<std::string> load(const Installation &modules, Engine (*engine)()) {
        ::setenv("UCX_PLUGIN_PATH", modules.directory.c_str(), 1);
        return engine().components();
    }
    static std::vector<std::string> loaded_cores() {
        std::vector<std::string> found;
        ::dl_iterate_phdr(
            [](dl_phdr_info *info, std::size_t, void *data) {
                if (std::string(info->dlpi_name).find("libgaudi-core.so") != std::string::npos)
                    static_cast<std::vector<std::string> *>(data)->emplace_back(info->dlpi_name);
                return 0;
            },
            &found);
        return found;
    }
};

TEST_P(TwoInstallations, module_of_another_interface_refuses_with_one_warning) {
    const Installation &core = first(kOtherInterface), &modules = second(kOtherInterface);
    const Finished info = run_info(modules, core, "warn");
    EXPECT_EQ(info.status, 0) << info.output;
    EXPECT_THAT(info.output, HasSubstr("# Memory domain: self"));
    EXPECT_THAT(warnings(info.output), ElementsAre(EndsWith(refusal(modules, "libuct_gaudi.so.0", core))));
}

TEST_P(TwoInstallations, module_of_another_version_works_and_is_logged) {
    const Installation &core = first(kOtherVersion), &modules = second(kOtherVersion);
    const Finished info = run_info(modules, core, "debug");
    EXPECT_EQ(info.status, 0) << info.output;
    EXPECT_THAT(info.output, HasSubstr("ucx-gaudi " + core.version + " serves UCX 1.22.0"));
    EXPECT_THAT(lines_with({" INFO "}, info.output), Contains(EndsWith(agreement(modules, "libuct_gaudi.so.0", core))));
    EXPECT_THAT(warnings(info.output), IsEmpty());
    EXPECT_THAT(run_info(modules, core, "warn").output, Not(HasSubstr("9.9.9")));
}

TEST_P(TwoInstallations, two_ucx_with_other_interfaces_keep_the_first) {
    const Installation &core = first(kOtherInterface), &modules = second(kOtherInterface);
    ::setenv("UCX_LOG_LEVEL", "debug", 1);
    testing::internal::CaptureStdout();
    const auto with = load(core, Engine::rapids), without = load(modules, Engine::nixl_1_23);
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_THAT(with, Contains("gaudi_copy"));
    EXPECT_THAT(without, Not(Contains("gaudi_copy")));
    EXPECT_THAT(warnings(text), ElementsAre(EndsWith(refusal(modules, "libuct_gaudi.so.0.0.0", core))));
    EXPECT_THAT(loaded_cores(), ElementsAre(core.core()));
}

TEST_P(TwoInstallations, two_ucx_with_other_versions_share_the_first_core) {
    const Installation &core = first(kOtherVersion), &modules = second(kOtherVersion);
    ::setenv("UCX_LOG_LEVEL", "info", 1);
    testing::internal::CaptureStdout();
    for (const auto &components : {load(core, Engine::rapids), load(modules, Engine::nixl_1_23)})
        EXPECT_THAT(components, Contains("gaudi_copy"));
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_THAT(lines_with({"works on"}, text),
                ElementsAre(EndsWith(agreement(modules, "libuct_gaudi.so.0.0.0", core))));
    EXPECT_THAT(warnings(text), IsEmpty());
    EXPECT_THAT(loaded_cores(), ElementsAre(core.core()));
}

INSTANTIATE_TEST_SUITE_P(, TwoInstallations, testing::Bool(),
                         [](const auto &own) { return own.param ? "own_first" : "other_first"; });

/// A directory with the modules, but without the core.
class ModulesAlone : public testing::Test {
protected:
    ModulesAlone() {
        fs::create_directories(m_directory);
        for (const auto &file : fs::directory_iterator(UCX_GAUDI_MODULES))
            if (file.path().filename().string().find("_gaudi.so") != std::string::npos)
                fs::copy(file.path(), m_directory);
    }
    ~ModulesAlone() override { fs::remove_all(m_directory); }

    /// Runs a program and returns what it says about Gaudi.
    std::vector<std::string> messages_of(const std::string &program, const std::string &preload = "") const {
        const Finished finished = run("LD_LIBRARY_PATH=" + kRapids + "/lib UCX_PLUGIN_PATH=" + m_directory.string(),
                                      kRapids + "/bin/" + program, preload);
        EXPECT_EQ(finished.status, 0) << finished.output;
        EXPECT_THAT(warnings(finished.output), IsEmpty());
        return lines_with({"ucx-gaudi"}, finished.output);
    }
    std::string refusal(const std::string &reason) const {
        return "ucx-gaudi: no Gaudi support: " + (m_directory / "libuct_gaudi.so.0").string() +
               " (ucx-gaudi " UCX_GAUDI_VERSION ") cannot use its core: " + reason + "; install ucx-gaudi again";
    }

    const fs::path m_directory = fs::path(testing::TempDir()) / ("modules-" + std::to_string(::getpid()));
};

TEST_F(ModulesAlone, missing_core_is_named_once_on_stderr) {
    const std::string expected = refusal((m_directory / "libgaudi-core.so.1").string() +
                                         ": cannot open shared object file: No such file or directory");
    EXPECT_THAT(messages_of("ucx_info -d"), ElementsAre(expected));
    EXPECT_THAT(messages_of("ucx_perftest -l -t tag_lat -n 10 -w 1"), ElementsAre(expected));
}

TEST_F(ModulesAlone, core_without_the_function_is_named) {
    EXPECT_THAT(messages_of("ucx_info -d", EMPTY_CORE),
                ElementsAre(refusal(EMPTY_CORE ": undefined symbol: gaudi_core_load")));
}

TEST_F(ModulesAlone, core_that_is_no_library_is_named) {
    fs::copy(m_directory / "libuct_gaudi.so.0", m_directory / "libgaudi-core.so.1");
    fs::resize_file(m_directory / "libgaudi-core.so.1", 10);
    EXPECT_THAT(messages_of("ucx_info -d"),
                ElementsAre(refusal((m_directory / "libgaudi-core.so.1").string() + ": file too short")));
}

} // namespace
} // namespace gaudi::ucx
