// SPDX-License-Identifier: BSD-3-Clause
#include "own_mounts.h"

#include "os/format.h"
#include "thunk/fd.h"

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
    // The kernel accepts such a file in one write only.
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

} // namespace

OrSentence<void> enter_own_mounts() {
    const auto user = ::geteuid(); // read before: inside the namespace, ids are unmapped until the maps are written
    const auto group = ::getegid();
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return Sentence(
            os::format("user and mount namespaces are not allowed on this machine: {}", std::strerror(errno)));
    // An unprivileged process may map its group only after it has given up changing its groups.
    if (!write_once("/proc/self/setgroups", "deny") ||
        !write_once("/proc/self/uid_map", os::format("{} {} 1", user, user)) ||
        !write_once("/proc/self/gid_map", os::format("{} {} 1", group, group)))
        return Sentence(os::format("cannot map user and group into a user namespace: {}", std::strerror(errno)));
    if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return Sentence(os::format("cannot make mounts private to this run: {}", std::strerror(errno)));
    return {};
}

} // namespace gaudi::cli
