// SPDX-License-Identifier: BSD-3-Clause
#include "own_mounts.h"

#include "thunk/fd.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gaudi::cli {
namespace {

bool write_once(const char *path, const std::string &text) {
    const thunk::Fd file(::open(path, O_WRONLY | O_CLOEXEC));
    // The kernel takes such a file in one piece or not at all.
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

} // namespace

OrSentence<void> enter_own_mounts() {
    const auto user = ::geteuid(); // asked before: inside, nobody is anybody until the maps are written
    const auto group = ::getegid();
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return Sentence(fmt::format("user and mount namespaces are not allowed here: {}", std::strerror(errno)));
    // An unprivileged process may map its group only after it has given up changing its groups.
    if (!write_once("/proc/self/setgroups", "deny") ||
        !write_once("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) ||
        !write_once("/proc/self/gid_map", fmt::format("{} {} 1", group, group)))
        return Sentence(fmt::format("cannot keep user and group in a user namespace: {}", std::strerror(errno)));
    if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return Sentence(fmt::format("cannot keep mounts from the rest of the machine: {}", std::strerror(errno)));
    return {};
}

} // namespace gaudi::cli
