// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include "path_list.h"
#include "places.h"
#include "thunk/library.h"

#include <algorithm>
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

} // namespace

OrSentence<Report> make_report() {
    Report report;
    report.ucx = report_ucx(); // first, because it forks: no library of the vendor is loaded yet
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
        report.in_plugin_path = path_list_contains("UCX_PLUGIN_PATH", *modules);
    }
    return report;
}

} // namespace gaudi::cli
