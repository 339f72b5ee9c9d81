// SPDX-License-Identifier: BSD-3-Clause
#include "file_owner.h"

#include "output_of.h"

#include <algorithm>
#include <fstream>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// dpkg takes a path for a pattern.
std::string escape_pattern(const std::string &path) {
    std::string escaped;
    for (const char letter : path) {
        if (std::string_view("*?[]\\").find(letter) != std::string_view::npos)
            escaped.push_back('\\');
        escaped.push_back(letter);
    }
    return escaped;
}

std::string find_debian_package(const fs::path &file) {
    const std::string line = output_of({"dpkg", "-S", escape_pattern(file.string())}); // package[, package ...]: path
    return line.substr(0, std::min(line.find(": "), line.size()));
}

/// rpm creates a database where it finds none, so it is asked only about one that exists.
std::string find_rpm(const fs::path &file) {
    for (const fs::path directory : {"/usr/lib/sysimage/rpm", "/var/lib/rpm"}) {
        for (const char *database : {"rpmdb.sqlite", "Packages.db", "Packages"}) {
            std::error_code error;
            if (!fs::exists(directory / database, error))
                continue;
            const std::string name =
                output_of({"rpm", "--dbpath", directory.string(), "-qf", "--queryformat", "%{NAME}\n", file.string()});
            return name.substr(0, std::min(name.find('\n'), name.size()));
        }
    }
    return {};
}

bool has_record(const fs::path &record, const std::string &relative) {
    std::ifstream in(record); // a line is path,hash,size
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with(relative + ","))
            return true;
    }
    return false;
}

/// A wheel's files are listed in <name>-<version>.dist-info/RECORD, relative to the directory that this is in.
std::string find_wheel(const fs::path &file) {
    for (fs::path place = file.parent_path(); place != place.root_path(); place = place.parent_path()) {
        std::error_code error;
        for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
            if (at->path().extension() == ".dist-info" &&
                has_record(at->path() / "RECORD", file.lexically_relative(place).string()))
                return at->path().stem().string();
        }
    }
    return {};
}

} // namespace

std::string find_owner(const fs::path &file) {
    for (const auto find : {find_wheel, find_debian_package, find_rpm}) {
        if (std::string owner = find(file); !owner.empty())
            return owner;
    }
    return {};
}

} // namespace gaudi::cli
