// SPDX-License-Identifier: BSD-3-Clause
#include "common/directory.h"

#include "os/format.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace soft {
namespace {

bool is_in_memory(const std::string &dir) {
    struct statfs info {};
    return statfs(dir.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

} // namespace

std::string directory_name(const char *variable, std::string_view usual) {
    if (const std::string_view named = env(variable); !named.empty())
        return std::string(named);
    if (const std::string runtime(env("XDG_RUNTIME_DIR")); !runtime.empty() && is_in_memory(runtime))
        return gaudi::os::format("{}/{}", runtime, usual);
    return gaudi::os::format("/dev/shm/{}-{}", usual, getuid());
}

Expected<std::string> make_directory(const char *variable, std::string_view usual, std::string_view why) {
    const std::string dir = directory_name(variable, usual);
    const bool named = !env(variable).empty();
    const auto bad = [&](std::string_view what) {
        return Unexpected(named ? gaudi::os::format("{}={}: {}", variable, dir, what)
                                : gaudi::os::format("{}: {}; set {} to another directory", dir, what, variable));
    };
    struct stat info {};
    if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
        return bad(gaudi::os::format("cannot create the directory: {}", std::strerror(errno)));
    if (named && (stat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)))
        return bad("is not a directory");
    // The default name is predictable: another user may have created a directory or a link there first.
    if (!named && (lstat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
                   (info.st_mode & 077) != 0))
        return bad("must be a directory of this user with mode 0700");
    if (!is_in_memory(dir))
        return bad(gaudi::os::format("must be on tmpfs, because {}", why));
    return dir;
}

std::string describe_setup_error(int error) {
    return error == EPROTO ? "created by another version; remove it" : std::strerror(error);
}

} // namespace soft
