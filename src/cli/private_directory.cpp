// SPDX-License-Identifier: BSD-3-Clause
#include "private_directory.h"

#include "os/format.h"

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

constexpr std::string_view kPrefix = "ucx_gaudi-run-"; // then the process id, for readers, and six letters

/// Accepts exactly the names that make() gives: a directory with a similar name may belong to a user.
bool is_private_directory(std::string_view name) {
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

/// Opens and locks a directory; nothing if it is in use, removed, or not a directory of this user.
std::optional<thunk::Fd> lock(const fs::path &path) {
    thunk::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    struct stat opened {
    }, named{};
    if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || ::fstat(fd.get(), &opened) != 0)
        return {};
    // Another run may have removed it between open and flock.
    if (::lstat(path.c_str(), &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev ||
        opened.st_uid != ::geteuid())
        return {};
    return fd;
}

std::error_code remove_tree(const fs::path &path) {
    std::error_code error;
    for (int tries = 0; tries < 5; ++tries) { // children of a killed program may still add files
        error.clear();
        fs::remove_all(path, error);
        if (!error)
            break;
    }
    return error;
}

/// Removes the directories of runs that were killed.
void remove_leftovers(const fs::path &base) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(base, error), end; !error && at != end; at.increment(error)) {
        if (is_private_directory(at->path().filename().string()))
            found.push_back(at->path());
    }
    for (const fs::path &path : found) {
        if (const auto locked = lock(path))
            remove_tree(path);
    }
}

/// Writable directories in memory.
std::vector<fs::path> list_bases() {
    std::vector<fs::path> found = {"/dev/shm"};
    if (const char *runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime)
        found.emplace_back(runtime);
    found.emplace_back("/tmp");
    std::erase_if(found,
                  [](const fs::path &base) { return !is_in_memory(base) || ::access(base.c_str(), W_OK | X_OK) != 0; });
    return found;
}

} // namespace

bool is_in_memory(const fs::path &directory) {
    struct statfs info {};
    return ::statfs(directory.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

OrSentence<PrivateDirectory> PrivateDirectory::make() {
    const std::vector<fs::path> places = list_bases();
    if (places.empty())
        return Sentence("found no writable tmpfs for the memory of the cards: neither /dev/shm nor XDG_RUNTIME_DIR nor "
                        "/tmp is one");
    for (const fs::path &base : places)
        remove_leftovers(base);
    for (int tries = 0; tries < 10; ++tries) { // another run may remove it before it is locked
        std::string name = os::format("{}/{}{}-XXXXXX", places.front().string(), kPrefix, ::getpid());
        if (!::mkdtemp(name.data()))
            return Sentence(
                os::format("cannot create a directory in {}: {}", places.front().string(), std::strerror(errno)));
        if (auto locked = lock(name))
            return PrivateDirectory(name, std::move(*locked));
    }
    return Sentence(os::format("cannot lock a new directory in {}: another process removes or locks each of them",
                               places.front().string()));
}

PrivateDirectory::~PrivateDirectory() {
    if (m_path.empty())
        return;
    if (const std::error_code error = remove_tree(m_path))
        os::print(stderr, "ucx_gaudi: cannot remove {}: {}\n", m_path.string(), error.message());
}

} // namespace gaudi::cli
