// SPDX-License-Identifier: BSD-3-Clause
#include "ucx.h"

#include "os/format.h"
#include "places.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> list_entries(const fs::path &directory) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
        found.push_back(at->path());
    std::sort(found.begin(), found.end(), [](const fs::path &a, const fs::path &b) {
        return ::strverscmp(a.c_str(), b.c_str()) < 0; // 1.9 before 1.10
    });
    return found;
}

bool is_present(const fs::path &path) {
    std::error_code error;
    return fs::exists(path, error);
}

fs::path find_library(const std::vector<fs::path> &files, const std::string &start) {
    const auto found = std::find_if(files.begin(), files.end(), [&](const fs::path &file) {
        const std::string name = file.filename().string();
        return name.starts_with(start) && name.find(".so") != std::string::npos;
    });
    return found == files.end() ? fs::path() : *found;
}

/// The directory of ucx_info: bin beside that of the libraries, which may be lib, lib64 or lib/x86_64-linux-gnu.
fs::path find_programs_of(const fs::path &libraries) {
    for (const fs::path &prefix : {libraries.parent_path(), libraries.parent_path().parent_path()})
        if (is_present(prefix / "bin" / "ucx_info"))
            return prefix / "bin";
    return {};
}

std::optional<Ucx> find_ucx_at(const fs::path &directory) {
    if (is_present(directory / "libucs.so.0"))
        return Ucx{directory, directory / "libucs.so.0", directory / "libucp.so.0", false, find_programs_of(directory)};
    const std::vector<fs::path> files = list_entries(directory);
    const fs::path libucs = find_library(files, "libucs-");
    if (libucs.empty())
        return {};
    return Ucx{directory, libucs, find_library(files, "libucp-"), true, {}};
}

std::vector<std::string> list_names(const std::vector<FetchedUcx> &builds) {
    std::vector<std::string> all;
    for (const FetchedUcx &build : builds)
        all.push_back(build.name);
    return all;
}

} // namespace

std::vector<Ucx> find_ucx_in(const fs::path &directory) {
    std::vector<fs::path> places = {directory, directory / "lib", directory / "lib64",
                                    directory / "lib/x86_64-linux-gnu", directory / "libucx/lib"};
    for (const fs::path &entry : list_entries(directory)) {
        if (entry.extension() == ".libs") // where wheels have the libraries that they bundle
            places.push_back(entry);
    }
    std::vector<Ucx> found;
    for (const fs::path &place : places) {
        if (auto ucx = find_ucx_at(place))
            found.push_back(std::move(*ucx));
    }
    return found;
}

std::vector<FetchedUcx> list_fetched_ucx() {
    std::vector<FetchedUcx> found;
    std::optional<Ucx> rapids;
    for (const fs::path &entry : list_entries(fetched_ucx_directory())) {
        const std::vector<Ucx> inside = find_ucx_in(entry);
        if (inside.empty())
            continue;
        found.push_back({entry.filename().string(), inside.front()});
        if (found.back().name.starts_with("rapids-"))
            rapids = inside.front();
    }
    if (rapids) {
        for (FetchedUcx &build : found) {
            if (build.ucx.hashed) // wheels without programs: those of rapids run on any UCX
                build.ucx.programs = rapids->programs;
        }
        found.insert(found.begin(), {"rapids", *rapids});
    }
    return found;
}

OrSentence<Ucx> resolve_ucx(const std::string &name) {
    const std::vector<FetchedUcx> known = list_fetched_ucx();
    for (const FetchedUcx &build : known) {
        if (build.name == name)
            return build.ucx;
    }
    const std::string choice = known.empty() ? os::format("no UCX is fetched in '{}'", fetched_ucx_directory().string())
                                             : os::format("fetched are {}", os::join(list_names(known), ", "));
    std::error_code error;
    const fs::path directory = fs::absolute(name, error);
    if (!fs::is_directory(directory, error))
        return Sentence(os::format("--ucx {}: is neither a fetched UCX nor a directory; {}", name, choice));
    std::vector<Ucx> inside = find_ucx_in(directory);
    if (inside.empty())
        return Sentence(
            os::format("--ucx {}: there is no libucs in it, in its lib, nor in a wheel in it; {}", name, choice));
    return std::move(inside.front());
}

} // namespace gaudi::cli
