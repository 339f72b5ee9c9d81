// SPDX-License-Identifier: BSD-3-Clause
#include "cli/path_list.h"
#include "collect.h"
#include "gaudi/card/cards.h"
#include "thunk/library.h"

#include <algorithm>
#include <cerrno>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

void collect_thunk(const Machine &machine, ThunkFacts &thunk) {
    const auto library = thunk::Library::find();
    if (!library) {
        // That there is none is no fault by itself; one that is named or incomplete is.
        if (library.error().code == ENOSYS || machine.variable("GAUDI_THUNK"))
            thunk.why_not = library.error().text;
        return;
    }
    thunk.path = (*library)->path();
    thunk.version = (*library)->version().value_or("unknown");
    thunk.software = thunk.version.find("softgaudi") != std::string::npos;
    const auto check = [&](const char *name, bool there) {
        if (!there)
            thunk.missing.emplace_back(name);
    };
#define GAUDI_DOCTOR_CHECK(name) check("hlthunk_" #name, (*library)->call().name != nullptr);
    GAUDI_THUNK_OPTIONAL(GAUDI_DOCTOR_CHECK)
#undef GAUDI_DOCTOR_CHECK
}

/// All files that a program could load as libhl-thunk.
std::vector<std::string> list_copies(const Machine &machine) {
    std::vector<fs::path> places = split_path_list(machine.variable("LD_LIBRARY_PATH").value_or(""));
    for (const char *place :
         {"/usr/lib/habanalabs", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"})
        places.emplace_back(place);
    std::vector<fs::path> files;
    if (const auto named = machine.variable("GAUDI_THUNK"); named && named->starts_with('/'))
        files.emplace_back(*named);
    for (const fs::path &place : places)
        if (machine.exists(place / "libhl-thunk.so"))
            files.push_back(place / "libhl-thunk.so");
    std::vector<std::string> found;
    for (const fs::path &file : files) {
        std::error_code error;
        const fs::path real = fs::canonical(machine.at(file), error);
        if (!error && std::ranges::find(found, real.string()) == found.end())
            found.push_back(real.string());
    }
    return found;
}

} // namespace

void collect_cards(const Machine &machine, Facts &facts) {
    facts.thunk.copies = list_copies(machine);
    collect_thunk(machine, facts.thunk);
    if (facts.thunk.path.empty()) {
        facts.why_no_card = facts.thunk.why_not.empty() ? "there is no Gaudi card" : facts.thunk.why_not;
        return;
    }
    auto cards = list_cards();
    if (!cards) {
        facts.mapping_table_error = cards.error(); // only the variables that choose cards are left to be wrong
        facts.why_no_card = cards.error();
        return;
    }
    facts.cards = std::move(*cards);
    if (facts.cards.empty())
        facts.why_no_card = (*Cards::get())->why_empty();
}

} // namespace gaudi::cli::doctor
