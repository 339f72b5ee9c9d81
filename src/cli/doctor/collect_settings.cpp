// SPDX-License-Identifier: BSD-3-Clause
#include "cli/module_files.h"
#include "cli/path_list.h"
#include "cli/ucx_conf.h"
#include "collect.h"
#include "os/format.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string_view>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char *kEnvironment = "environment";

/// Whether a variable is of UCX, of the cards or of RDMA. Others are not collected: they may be secret.
bool is_ours(std::string_view name) {
    constexpr std::array<std::string_view, 6> kPrefixes = {"UCX_",       "GAUDI_",   "HABANA_",
                                                           "SOFTGAUDI_", "SOFTHCA_", "OMPI_MCA_"};
    constexpr std::array<std::string_view, 3> kNames = {"HLS_MODULE_ID", "RDMAV_FORK_SAFE", "MLX5_SCATTER_TO_CQE"};
    return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
           std::ranges::find(kNames, name) != kNames.end();
}

std::string trim(const std::string &text) {
    constexpr const char *kBlank = " \t\r";
    const std::size_t begin = text.find_first_not_of(kBlank);
    return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// The settings of a ucx.conf that hold on every machine: those behind a [section] hold on some.
void read_conf(const Machine &machine, const fs::path &file, const std::string &name,
               std::map<std::string, SettingFacts> &found) {
    std::istringstream lines(machine.read(file).value_or(""));
    for (std::string line; std::getline(lines, line);) {
        line = trim(line);
        if (line.starts_with('['))
            return;
        const std::size_t equals = line.find('=');
        if (line.starts_with('#') || equals == std::string::npos)
            continue;
        const std::string key = trim(line.substr(0, equals));
        if (key.starts_with("UCX_"))
            found[key] = {key, trim(line.substr(equals + 1)), name};
    }
}

/// A directory as UCX scans it for libuct_gaudi; `seen` says whether one was found before.
void scan(const Machine &machine, const fs::path &directory, const std::string &suffix, bool &seen,
          std::vector<ModuleFileFacts> &found) {
    if (!machine.exists(directory)) {
        found.push_back({directory.string(), "this directory does not exist"});
        return;
    }
    for (const std::string &name : machine.list(directory)) {
        constexpr std::string_view kStart = "libuct_gaudi";
        if (!name.starts_with(kStart))
            continue;
        ModuleFileFacts file{(directory / name).string(), ""};
        if (name.size() > kStart.size() && name[kStart.size()] == '_')
            file.why_skipped = "UCX skips names with a further _";
        else if (module_suffix(name) != suffix)
            file.why_skipped = os::format("UCX loads only files that end in {}, as its libucs does", suffix);
        else if (seen)
            file.why_skipped = "a module of this name was found before it";
        else
            seen = true;
        found.push_back(std::move(file));
    }
}

} // namespace

std::vector<SettingFacts> collect_settings(const Machine &machine, const fs::path &ucx_libraries) {
    std::map<std::string, SettingFacts> found;
    // In the order in which UCX reads them: later ones win, and the environment over all of them.
    read_conf(machine, system_conf(), system_conf().string(), found);
    if (!ucx_libraries.empty()) {
        const fs::path beside = conf_beside(ucx_libraries);
        read_conf(machine, beside, beside.string(), found);
    }
    if (const auto home = machine.variable("HOME"))
        read_conf(machine, fs::path(*home) / "ucx.conf", *home + "/ucx.conf", found);
    if (const auto directory = machine.variable("UCX_CONFIG_DIR"))
        read_conf(machine, fs::path(*directory) / "ucx.conf", *directory + "/ucx.conf", found);
    if (!machine.working_directory.empty())
        read_conf(machine, machine.working_directory / "ucx.conf", "./ucx.conf", found);
    for (const auto &[name, value] : machine.environment)
        if (is_ours(name))
            found[name] = {name, value, kEnvironment};
    std::vector<SettingFacts> settings;
    for (auto &[name, setting] : found)
        settings.push_back(std::move(setting));
    return settings;
}

std::vector<ModuleFileFacts> collect_module_files(const Machine &machine, const fs::path &libucs,
                                                  const std::vector<SettingFacts> &settings) {
    std::vector<ModuleFileFacts> found;
    const auto value_of = [&](const char *name) {
        const auto setting = std::ranges::find(settings, name, &SettingFacts::name);
        return setting == settings.end() ? std::string() : setting->value;
    };
    const std::string suffix = module_suffix(libucs);
    bool seen = false;
    for (const fs::path &directory : split_path_list(value_of("UCX_PLUGIN_PATH")))
        scan(machine, directory, suffix, seen, found);
    const std::string other = value_of("UCX_MODULE_DIR");
    const fs::path own = other.empty() ? libucs.parent_path() / "ucx" : fs::path(other);
    if (machine.exists(own))
        scan(machine, own, suffix, seen, found);
    return found;
}

} // namespace gaudi::cli::doctor
