// SPDX-License-Identifier: BSD-3-Clause
#include "counter_directory.h"

#include "counters.h"
#include "os/format.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

namespace gaudi {
namespace {

tl::unexpected<thunk::Error> refuse(int code, const char *call, const std::string &path, const char *why) {
    return tl::unexpected(
        thunk::Error{code, call, os::format("the directory {} of counters cannot be used: {}", path, why)});
}

/// Whether no process has the file published. A lock that was got ends with the descriptor.
bool is_stale(int file) { return ::flock(file, LOCK_SH | LOCK_NB) == 0; }

/// Whether the name is one of make_page_name().
bool is_page_name(std::string_view name) {
    const auto skip_digits = [&](std::size_t least, std::size_t most) {
        std::size_t digits = 0;
        while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9')
            ++digits;
        name.remove_prefix(digits);
        return digits >= least && digits <= most;
    };
    const auto skip = [&](char letter) {
        const bool found = name.starts_with(letter);
        name.remove_prefix(found ? 1 : 0);
        return found;
    };
    return skip_digits(1, 10) && skip('-') && skip_digits(1, 20) && skip('.') && skip_digits(9, 9) && name.empty();
}

bool has_magic(int file) {
    decltype(CounterPage::magic) magic{};
    return ::pread(file, magic.data(), magic.size(), 0) == ssize_t{magic.size()} && magic == CounterPage::kMagic;
}

/// Removes the file that was opened as `name`, unless another one has the name by now, or it is no page.
void remove_stale(int directory, const char *name, int file, const struct stat &opened) {
    if (!has_magic(file))
        return;
    struct stat named {};
    if (::fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == opened.st_ino)
        ::unlinkat(directory, name, 0);
}

} // namespace

std::string CounterDirectory::path() {
    if (const char *set = ::secure_getenv("GAUDI_COUNTERS_DIR"))
        return set;
    return os::format("/dev/shm/ucx-gaudi-{}", ::geteuid());
}

thunk::Result<CounterDirectory> CounterDirectory::open(bool create) {
    const std::string path = CounterDirectory::path();
    if (path.empty())
        return tl::unexpected(thunk::Error{ENOENT, "open", "GAUDI_COUNTERS_DIR is empty: counters are not published"});
    if (create && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return refuse(errno, "mkdir", path, std::strerror(errno));
    thunk::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd)
        return refuse(errno, "open", path, std::strerror(errno));
    struct stat found {};
    if (::fstat(fd.get(), &found) != 0)
        return refuse(errno, "fstat", path, std::strerror(errno));
    if (found.st_uid != ::geteuid())
        return refuse(EACCES, "open", path, "it is another user's");
    if ((found.st_mode & 077) != 0)
        return refuse(EACCES, "open", path, "other users may enter it (its mode must be 0700)");
    return CounterDirectory(std::move(fd));
}

std::string CounterDirectory::make_page_name() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return os::format("{}-{}.{:09}", ::getpid(), now.tv_sec, now.tv_nsec);
}

bool CounterDirectory::for_each(std::size_t limit,
                                const std::function<void(int file, const std::string &name)> &visit) const {
    const int listed = ::openat(m_fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR *)> entries(listed >= 0 ? ::fdopendir(listed) : nullptr, ::closedir);
    if (!entries) {
        if (listed >= 0)
            ::close(listed);
        return true;
    }
    while (const dirent *entry = ::readdir(entries.get())) {
        if (!is_page_name(entry->d_name))
            continue;
        if (limit-- == 0)
            return false;
        // A FIFO or a device under such a name must not keep the caller waiting.
        const thunk::Fd file(::openat(m_fd.get(), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat opened {};
        if (!file || ::fstat(file.get(), &opened) != 0 || !S_ISREG(opened.st_mode) || opened.st_uid != ::geteuid())
            continue;
        if (is_stale(file.get()))
            remove_stale(m_fd.get(), entry->d_name, file.get(), opened);
        else
            visit(file.get(), entry->d_name);
    }
    return true;
}

} // namespace gaudi
