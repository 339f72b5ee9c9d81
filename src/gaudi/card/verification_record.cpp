// SPDX-License-Identifier: BSD-3-Clause
#include "verification_record.h"

#include "os/format.h"
#include "thunk/fd.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace gaudi {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json; // keeps the order for readers

constexpr const char *kFormat = "ucx-gaudi verification record 1";
constexpr std::size_t kMostBytes = 64 << 10; // of a file
constexpr std::size_t kMostFiles = 64;       // of a directory

bool is_set_uid() { return ::getauxval(AT_SECURE) != 0; }

/// A directory of records, and who may own a file there.
struct Place {
    fs::path directory;
    std::vector<uid_t> owners;
};

std::vector<Place> list_places(const thunk::Library &library) {
    std::vector<Place> places;
    if (fs::path user = user_record_directory(); !user.empty())
        places.push_back({std::move(user), {::geteuid()}});
    struct stat file {};
    if (::stat(library.path().c_str(), &file) == 0)
        places.push_back({record_directory_beside(library), {0, file.st_uid}});
    return places;
}

std::vector<fs::path> list_files(const fs::path &directory) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.starts_with("verified-") && name.ends_with(".json"))
            files.push_back(at->path());
    }
    std::sort(files.begin(), files.end());
    files.resize(std::min(files.size(), kMostFiles));
    return files;
}

std::optional<VerificationRecord> parse_record(const std::string &text) {
    const Json json = Json::parse(text, nullptr, false);
    try {
        if (json.at("format").get<std::string>() != kFormat)
            return {};
        const Json &flag = json.at("completion_flag");
        VerificationRecord record;
        record.versions = {json.at("model").get<std::string>(), json.at("driver").get<std::string>(),
                           json.at("firmware").get<std::string>()};
        record.flag_order_held = flag.at("order_held").get<bool>();
        record.soak_seconds = flag.at("soak_seconds").get<std::uint64_t>();
        return record;
    } catch (const nlohmann::json::exception &) { // a key that is missing, or has another type
        return {};
    }
}

/// The record in a file; the sentence about it where it is to be ignored.
tl::expected<VerificationRecord, std::string> read_record(const fs::path &path, const Place &place) {
    const auto ignore = [&](const std::string &why) {
        return tl::unexpected(os::format("the verification record {} is ignored: {}", path.string(), why));
    };
    // A pipe must not block the program.
    const thunk::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat about {};
    if (!file || ::fstat(file.get(), &about) != 0)
        return ignore(std::strerror(errno));
    if (!S_ISREG(about.st_mode))
        return ignore("it is no regular file");
    if (std::find(place.owners.begin(), place.owners.end(), about.st_uid) == place.owners.end())
        return ignore(os::format("it belongs to another user, {}", about.st_uid));
    if (about.st_size > static_cast<off_t>(kMostBytes))
        return ignore(os::format("it has {} bytes, more than any record", about.st_size));
    std::string text(static_cast<std::size_t>(about.st_size), '\0');
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    if (got < 0)
        return ignore(std::strerror(errno));
    text.resize(static_cast<std::size_t>(got));
    auto record = parse_record(text);
    if (!record)
        return ignore("it is malformed; run ucx_gaudi verify again");
    record->path = path;
    return std::move(*record);
}

std::string file_name(const CardVersions &versions) {
    std::string name = os::format("verified-{}-{}-{}", versions.model, versions.driver, versions.firmware);
    for (char &letter : name)
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.' && letter != '-')
            letter = '_';
    name.resize(std::min<std::size_t>(name.size(), 200)); // a name of a file has 255 at most
    return name + ".json";
}

Error cannot_write(const fs::path &path) {
    const int code = errno;
    return {code, "write", os::format("cannot write {}: {}", path.string(), std::strerror(code))};
}

} // namespace

fs::path user_record_directory() {
    if (is_set_uid())
        return {};
    const auto absolute = [](const char *name) {
        const char *value = ::secure_getenv(name);
        return value && *value == '/' ? fs::path(value) : fs::path();
    };
    if (const fs::path cache = absolute("XDG_CACHE_HOME"); !cache.empty())
        return cache / "ucx-gaudi";
    const fs::path home = absolute("HOME");
    return home.empty() ? home : home / ".cache" / "ucx-gaudi";
}

fs::path record_directory_beside(const thunk::Library &library) {
    return fs::path(library.path()).parent_path() / "ucx-gaudi-verified";
}

FoundRecords find_records(const thunk::Library &library, const CardVersions &versions) {
    FoundRecords found;
    found.secure = is_set_uid();
    if (found.secure)
        return found;
    for (const Place &place : list_places(library)) {
        for (const fs::path &path : list_files(place.directory)) {
            auto record = read_record(path, place);
            if (!record)
                found.ignored.push_back(record.error());
            else if (record->versions == versions)
                found.record = found.record ? std::move(found.record) : std::move(*record);
            else if (record->versions.model == versions.model) // other models are other cards of this machine
                found.ignored.push_back(
                    os::format("the verification record {} is ignored: it is for driver {} and firmware {}, and this "
                               "card has driver {} and firmware {}; run ucx_gaudi verify again",
                               path.string(), record->versions.driver, record->versions.firmware, versions.driver,
                               versions.firmware));
        }
    }
    return found;
}

CompletionDefault choose_completion(const FoundRecords &records, const CardVersions &versions) {
    if (records.secure)
        return {false, "a set-uid program reads no verification record"};
    if (!records.record)
        return {false, os::format("no verification record for driver {} and firmware {}; ucx_gaudi verify makes one",
                                  versions.driver, versions.firmware)};
    const VerificationRecord &record = *records.record;
    if (!record.flag_order_held)
        return {false, os::format("{} says that a completion flag came before its data", record.path.string())};
    if (record.soak_seconds < VerificationRecord::kLeastSoakSeconds)
        return {false, os::format("{} says that the order held for {} s, and {} s are needed", record.path.string(),
                                  record.soak_seconds, VerificationRecord::kLeastSoakSeconds)};
    return {true, os::format("{} says that the order held for {} s", record.path.string(), record.soak_seconds)};
}

Result<fs::path> write_record(const VerificationRecord &record) {
    const fs::path directory = user_record_directory();
    if (directory.empty())
        return tl::unexpected(Error{ENOENT, "write",
                                    "the verification record has no place: neither XDG_CACHE_HOME nor HOME names an "
                                    "absolute path"});
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) {
        errno = error.value();
        return tl::unexpected(cannot_write(directory));
    }
    const Json json = {
        {"format", kFormat},
        {"model", record.versions.model},
        {"driver", record.versions.driver},
        {"firmware", record.versions.firmware},
        {"completion_flag", {{"order_held", record.flag_order_held}, {"soak_seconds", record.soak_seconds}}}};
    const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    const fs::path path = directory / file_name(record.versions);
    std::string fresh = (directory / "new-XXXXXX").string();
    const thunk::Fd file(::mkostemp(fresh.data(), O_CLOEXEC)); // a reader sees the old record or the new one, whole
    if (!file)
        return tl::unexpected(cannot_write(fresh));
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::rename(fresh.c_str(), path.c_str()) != 0) {
        Error failure = cannot_write(path);
        ::unlink(fresh.c_str());
        return tl::unexpected(std::move(failure));
    }
    return path;
}

} // namespace gaudi
