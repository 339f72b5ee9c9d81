// SPDX-License-Identifier: BSD-3-Clause
#include "private_directory.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ucx_gaudi-run-"; // then the process, for people to see, and six letters

/// Exactly the names that we make: others may look alike and hold what somebody wants to keep.
bool is_ours(std::string_view name) {
    if (!name.starts_with(kPrefix))
        return false;
    name.remove_prefix(kPrefix.size());
    const std::size_t dash = name.find('-');
    const auto all = [](std::string_view text, int (*kind)(int)) {
        return !text.empty() && std::all_of(text.begin(), text.end(),
                                            [&](char letter) { return kind(static_cast<unsigned char>(letter)) != 0; });
    };
    return dash != std::string_view::npos && all(name.substr(0, dash), std::isdigit) && name.size() - dash - 1 == 6 &&
           all(name.substr(dash + 1), std::isalnum);
}

/// The directory, locked; nothing if it is in use, gone, or not a directory of this user.
std::optional<thunk::Fd> lock(const fs::path &path) {
    thunk::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    struct stat opened {
    }, named{};
    if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || ::fstat(fd.get(), &opened) != 0)
        return {};
    // It may have been removed between its opening and its locking.
    if (::lstat(path.c_str(), &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev ||
        opened.st_uid != ::geteuid())
        return {};
    return fd;
}

std::error_code remove_tree(const fs::path &path) {
    std::error_code error;
    for (int tries = 0; tries < 5; ++tries) { // what is left of a killed program may still be adding files
        error.clear();
        fs::remove_all(path, error);
        if (!error)
            break;
    }
    return error;
}

void sweep(const fs::path &base) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(base, error), end; !error && at != end; at.increment(error)) {
        if (is_ours(at->path().filename().string()))
            found.push_back(at->path());
    }
    for (const fs::path &path : found) {
        if (const auto locked = lock(path))
            remove_tree(path);
    }
}

std::vector<fs::path> bases() {
    std::vector<fs::path> found = {"/dev/shm"};
    if (const char *runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime)
        found.emplace_back(runtime);
    found.emplace_back("/tmp");
    std::erase_if(found,
                  [](const fs::path &base) { return !on_memory(base) || ::access(base.c_str(), W_OK | X_OK) != 0; });
    return found;
}

} // namespace

bool on_memory(const fs::path &directory) {
    struct statfs info {};
    return ::statfs(directory.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

OrSentence<PrivateDirectory> PrivateDirectory::make() {
    const std::vector<fs::path> places = bases();
    if (places.empty())
        return Sentence("found no tmpfs to write to, neither /dev/shm nor XDG_RUNTIME_DIR nor /tmp");
    for (const fs::path &base : places)
        sweep(base);
    for (int tries = 0; tries < 10; ++tries) { // another run may sweep ours away before we have locked it
        std::string name = fmt::format("{}/{}{}-XXXXXX", places.front().string(), kPrefix, ::getpid());
        if (!::mkdtemp(name.data()))
            return Sentence(
                fmt::format("cannot make a directory in {}: {}", places.front().string(), std::strerror(errno)));
        if (auto locked = lock(name))
            return PrivateDirectory(name, std::move(*locked));
    }
    return Sentence(fmt::format("cannot lock a directory in {}", places.front().string()));
}

PrivateDirectory::~PrivateDirectory() {
    if (m_path.empty())
        return;
    if (const std::error_code error = remove_tree(m_path))
        fmt::print(stderr, "ucx_gaudi: cannot remove {}: {}\n", m_path.string(), error.message());
}

} // namespace gaudi::cli
