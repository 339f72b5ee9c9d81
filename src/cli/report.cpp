// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include "os/format.h"
#include "path_list.h"
#include "places.h"
#include "thunk/library.h"
#include "ucx_conf.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

std::optional<LibraryReport> report_library() {
    const auto library = thunk::Library::find();
    if (!library)
        return {}; // a machine without the library is no error; report_cards has returned the others
    LibraryReport report;
    report.path = (*library)->path();
    report.version = (*library)->version().value_or("unknown");
    report.software = report.version.find("softgaudi") != std::string::npos;
    report.can_export = (*library)->has_dmabuf();
    return report;
}

std::vector<std::string> list_files(const fs::path &directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
        names.push_back(at->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

/// The ucx.conf that names the directory in UCX_PLUGIN_PATH, of those that UCX reads the one that it reads last.
std::string find_enabling_conf(const std::vector<UcxReport> &all, const fs::path &modules) {
    std::vector<fs::path> files = {system_conf()};
    for (const UcxReport &ucx : all)
        files.push_back(conf_beside(fs::path(ucx.libucs).parent_path()));
    files.push_back(user_conf());
    if (const char *directory = std::getenv("UCX_CONFIG_DIR"))
        files.push_back(fs::path(directory) / "ucx.conf");
    files.emplace_back("./ucx.conf");
    std::string found;
    for (const fs::path &file : files) {
        if (const auto conf = UcxConf::read(file); conf && contains_directory(split_path_list(conf->value()), modules))
            found = file.string();
    }
    return found;
}

} // namespace

OrSentence<Report> make_report() {
    Report report;
    report.ucx = report_ucx(); // first, because it forks: no library of the vendor is loaded yet
    if (const auto library = thunk::Library::find(); !library && library.error().code == ENOSYS)
        return Sentence(
            os::format("{}; install a newer libhl-thunk, or name one in GAUDI_THUNK", library.error().text));
    auto cards = report_cards();
    if (!cards)
        return Sentence(cards.error());
    report.cards = std::move(*cards);
    if (report.cards.empty())
        report.why_no_card = report_why_no_card();
    report.library = report_library();
    if (const auto modules = find_module_directory()) {
        report.module_directory = modules->string();
        report.module_files = list_files(*modules);
        const char *plugin_path = std::getenv("UCX_PLUGIN_PATH"); // where it is set, no file counts
        report.in_plugin_path = plugin_path && contains_directory(split_path_list(plugin_path), *modules);
        if (!plugin_path)
            report.enabled_in = find_enabling_conf(report.ucx, *modules);
    }
    report.problems = report_problems(report);
    return report;
}

} // namespace gaudi::cli
