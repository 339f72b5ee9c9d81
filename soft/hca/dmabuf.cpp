// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf.h"

#include "gaudi/state.h"
#include "gaudi/store.h"
#include "os/format.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

namespace softhca {
namespace {

/// Whether the card whose memory is in `dir` was reset or lost since it was opened; false without such a card.
bool is_card_down(const std::string &dir) {
    const softgaudi::File file(open(gaudi::os::format("{}/state", dir).c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!file || fstat(file.get(), &info) != 0 || static_cast<size_t>(info.st_size) != sizeof(softgaudi::CardState))
        return false;
    void *memory = mmap(nullptr, sizeof(softgaudi::CardState), PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
        return false;
    const auto *card = static_cast<const softgaudi::CardState *>(memory);
    const bool down = card->magic.load() == softgaudi::CardState::kMagic && (card->lost || card->in_reset);
    munmap(memory, sizeof(softgaudi::CardState));
    return down;
}

} // namespace

tl::expected<DmaBuf, int> inspect_dmabuf(int fd) {
    if (fcntl(fd, F_GETFD) < 0)
        return tl::unexpected(EBADF);
    std::array<char, PATH_MAX> link{};
    if (readlink(gaudi::os::format("/proc/self/fd/{}", fd).c_str(), link.data(), link.size() - 1) < 0)
        return tl::unexpected(EBADF);
    const std::string path = link.data();
    if (path.starts_with("/dmabuf:")) {
        const off_t size = lseek(fd, 0, SEEK_END);
        if (size < 0)
            return tl::unexpected(EINVAL);
        return DmaBuf{0, static_cast<uint64_t>(size), true};
    }
    const size_t slash = path.rfind('/');
    DmaBuf out;
    unsigned long long base = 0, size = 0;
    if (slash == std::string::npos || std::sscanf(path.c_str() + slash, "/dmabuf-%llu-%llu-", &base, &size) != 2)
        return tl::unexpected(EINVAL);
    // The driver refuses an importer with EPERM only: the two devices cannot reach each other.
    if (is_card_down(path.substr(0, slash)))
        return tl::unexpected(EPERM);
    out.base = base;
    out.size = size;
    return out;
}

} // namespace softhca
