// SPDX-License-Identifier: BSD-3-Clause
// UCX uses a device only if its character device exists and is accessible. The software devices are not in /dev, so
// stat and access answer for their nodes and the directory of these, and for nothing else.
#include "api.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

using namespace softhca;

namespace {

constexpr std::string_view kDirectory = "/dev/infiniband";
constexpr std::string_view kPrefix = "/dev/infiniband/uverbs_softhca";

bool is_software_device(const char *path) {
    const std::string_view name = path ? path : "";
    if (name == kDirectory) {
        const Hca *hca = Hca::get();
        return hca && hca->config().devices != 0;
    }
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + 1)
        return false;
    const Hca *hca = Hca::get();
    const unsigned index = static_cast<unsigned>(name.back() - '0');
    return hca && index < hca->config().devices;
}

int answer(const char *path, struct stat *out) {
    *out = {};
    out->st_mode = path == kDirectory ? S_IFDIR | 0755 : S_IFCHR | 0666;
    out->st_nlink = 1;
    return 0;
}

} // namespace

SOFTHCA_API int stat(const char *path, struct stat *out) noexcept {
    return is_software_device(path) ? answer(path, out) : fstatat(AT_FDCWD, path, out, 0);
}

// Called by programs built with a glibc before 2.33.
SOFTHCA_API int __xstat(int, const char *path, struct stat *out) noexcept {
    return is_software_device(path) ? answer(path, out) : fstatat(AT_FDCWD, path, out, 0);
}

SOFTHCA_API int access(const char *path, int mode) noexcept {
    if (!is_software_device(path))
        return faccessat(AT_FDCWD, path, mode, 0);
    if ((mode & X_OK) == 0 || path == kDirectory)
        return 0;
    errno = EACCES;
    return -1;
}
