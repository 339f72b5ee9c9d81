// SPDX-License-Identifier: BSD-3-Clause
#include "os/format.h"
#include "report.h"

#include "module_files.h"
#include "path_list.h"

#include <fstream>
#include <map>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCore = "libgaudi-core.so.1";
constexpr const char *kVendor = "0x1da3"; // Habana Labs

bool is_present(const fs::path &path) {
    std::error_code error;
    return fs::exists(path, error);
}

/// The usable UCX by the suffix of the modules that they load; of several with the same suffix the first.
std::map<std::string, std::string> list_suffixes(const Report &report) {
    std::map<std::string, std::string> found;
    for (const UcxReport &ucx : report.ucx) {
        if (ucx.why_unusable.empty())
            found.emplace(module_suffix(ucx.libucs), ucx.libucs);
    }
    return found;
}

void check_plugin_path(const Report &report, std::vector<std::string> &problems) {
    const auto suffixes = list_suffixes(report);
    for (const fs::path &directory : read_path_list("UCX_PLUGIN_PATH")) {
        if (!is_present(directory)) {
            problems.push_back(os::format("UCX_PLUGIN_PATH names {}, which does not exist; "
                                          "export UCX_PLUGIN_PATH=$(ucx_gaudi plugin-path)",
                                          directory.string()));
            continue;
        }
        for (const auto &[suffix, libucs] : suffixes) {
            if (!has_module(directory, suffix))
                problems.push_back(os::format("UCX_PLUGIN_PATH names {}, where nothing ends in {} as {} does, so that "
                                              "this UCX loads nothing from it; add the output of "
                                              "'ucx_gaudi plugin-path' to UCX_PLUGIN_PATH",
                                              directory.string(), suffix, libucs));
        }
    }
}

void check_modules(const Report &report, std::vector<std::string> &problems) {
    std::vector<fs::path> directories = read_path_list("UCX_PLUGIN_PATH");
    if (!report.module_directory.empty() && !report.in_plugin_path)
        directories.emplace_back(report.module_directory);
    for (const fs::path &directory : directories) {
        if (is_present(directory / "libuct_gaudi.so.0") && !is_present(directory / kCore))
            problems.push_back(os::format("{} is missing in {}, and the modules there do not load without it; "
                                          "install ucx-gaudi-plugin again",
                                          kCore, directory.string()));
    }
}

/// The bus ids of the cards that the kernel sees, with a driver or without.
std::vector<std::string> list_pci_cards() {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator at("/sys/bus/pci/devices", error), end; !error && at != end; at.increment(error)) {
        std::string vendor;
        if (std::ifstream(at->path() / "vendor") >> vendor && vendor == kVendor)
            found.push_back(at->path().filename().string());
    }
    return found;
}

void check_cards(const Report &report, std::vector<std::string> &problems) {
    if (report.library && !report.library->can_export)
        problems.push_back(os::format("{} cannot export dma-bufs, so that RDMA goes through host memory; install a "
                                      "newer libhl-thunk",
                                      report.library->path));
    const std::vector<std::string> cards = list_pci_cards();
    if (cards.empty())
        return;
    if (!report.library)
        problems.push_back(os::format("there are {} Gaudi cards ({}), and no libhl-thunk to use them; install the "
                                      "libraries of the Gaudi driver, or name the file in GAUDI_THUNK",
                                      cards.size(), os::join(cards, ", ")));
    else if (report.cards.empty() && !report.library->software && !is_present("/dev/accel"))
        problems.push_back(os::format("there are {} Gaudi cards ({}), and no /dev/accel to reach them; load the driver "
                                      "habanalabs, or give the container the device nodes",
                                      cards.size(), os::join(cards, ", ")));
}

} // namespace

std::vector<std::string> report_problems(const Report &report) {
    std::vector<std::string> problems;
    check_plugin_path(report, problems);
    check_modules(report, problems);
    check_cards(report, problems);
    return problems;
}

} // namespace gaudi::cli
