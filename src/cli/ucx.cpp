// SPDX-License-Identifier: BSD-3-Clause
#include "ucx.h"

#include "places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path &directory) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
        found.push_back(at->path());
    std::sort(found.begin(), found.end(), [](const fs::path &a, const fs::path &b) {
        return ::strverscmp(a.c_str(), b.c_str()) < 0; // 1.9 before 1.10
    });
    return found;
}

bool is_there(const fs::path &path) {
    std::error_code error;
    return fs::exists(path, error);
}

fs::path library(const std::vector<fs::path> &files, const std::string &start) {
    const auto found = std::find_if(files.begin(), files.end(), [&](const fs::path &file) {
        const std::string name = file.filename().string();
        return name.starts_with(start) && name.find(".so") != std::string::npos;
    });
    return found == files.end() ? fs::path() : *found;
}

std::optional<Ucx> ucx_at(const fs::path &directory) {
    if (is_there(directory / "libucs.so.0")) {
        const fs::path programs = directory.parent_path() / "bin";
        return Ucx{directory, directory / "libucs.so.0", directory / "libucp.so.0", false,
                   is_there(programs / "ucx_info") ? programs : fs::path()};
    }
    const std::vector<fs::path> files = entries(directory);
    const fs::path libucs = library(files, "libucs-");
    if (libucs.empty())
        return {};
    return Ucx{directory, libucs, library(files, "libucp-"), true, {}};
}

std::vector<std::string> names(const std::vector<Engine> &engines) {
    std::vector<std::string> all;
    for (const Engine &engine : engines)
        all.push_back(engine.name);
    return all;
}

} // namespace

std::vector<Ucx> ucx_in(const fs::path &directory) {
    std::vector<fs::path> places = {directory, directory / "lib", directory / "lib64", directory / "libucx" / "lib"};
    for (const fs::path &entry : entries(directory)) {
        if (entry.extension() == ".libs") // where wheels keep the libraries they bring along
            places.push_back(entry);
    }
    std::vector<Ucx> found;
    for (const fs::path &place : places) {
        if (auto ucx = ucx_at(place))
            found.push_back(std::move(*ucx));
    }
    return found;
}

std::vector<Engine> engines() {
    std::vector<Engine> found;
    std::optional<Ucx> rapids;
    for (const fs::path &entry : entries(engines_directory())) {
        const std::vector<Ucx> inside = ucx_in(entry);
        if (inside.empty())
            continue;
        found.push_back({entry.filename().string(), inside.front()});
        if (found.back().name.starts_with("rapids-"))
            rapids = inside.front();
    }
    if (rapids) {
        for (Engine &engine : found) {
            if (engine.ucx.hashed) // those wheels bring no programs, and these run on any UCX
                engine.ucx.programs = rapids->programs;
        }
        found.insert(found.begin(), {"rapids", *rapids});
    }
    return found;
}

OrSentence<Ucx> ucx_named(const std::string &name) {
    const std::vector<Engine> known = engines();
    for (const Engine &engine : known) {
        if (engine.name == name)
            return engine.ucx;
    }
    const std::string choice = known.empty() ? fmt::format("there are no engines in '{}'", engines_directory().string())
                                             : fmt::format("there are {}", fmt::join(names(known), ", "));
    std::error_code error;
    const fs::path directory = fs::absolute(name, error);
    if (!fs::is_directory(directory, error))
        return Sentence(fmt::format("--ucx {}: is neither an engine nor a directory; {}", name, choice));
    std::vector<Ucx> inside = ucx_in(directory);
    if (inside.empty())
        return Sentence(
            fmt::format("--ucx {}: there is no libucs in it, in its lib, nor in a wheel in it; {}", name, choice));
    return std::move(inside.front());
}

} // namespace gaudi::cli
