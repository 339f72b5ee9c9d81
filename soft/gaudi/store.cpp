// SPDX-License-Identifier: BSD-3-Clause
#include "store.h"

#include "os/format.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <utility>

namespace softgaudi {

File::~File() {
    if (m_fd >= 0)
        ::close(m_fd);
}

File &File::operator=(File &&other) noexcept {
    if (this != &other) {
        if (m_fd >= 0)
            ::close(m_fd);
        m_fd = other.release();
    }
    return *this;
}

int File::release() { return std::exchange(m_fd, -1); }

void *map_shared(const std::string &path, size_t size, void (*init)(void *)) {
    const File file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file)
        return nullptr;
    // The first process initialises the file; the others wait here.
    while (flock(file.get(), LOCK_EX) != 0) {
        if (errno != EINTR)
            return nullptr;
    }
    struct stat info {};
    if (fstat(file.get(), &info) != 0)
        return nullptr;
    const bool fresh = info.st_size == 0;
    if (!fresh && static_cast<size_t>(info.st_size) != size) {
        errno = EPROTO; // of another version, whose processes may have it mapped
        return nullptr;
    }
    if (fresh && ftruncate(file.get(), static_cast<off_t>(size)) != 0)
        return nullptr;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
        return nullptr;
    // The first word is written last: it is 0 if a process died while it initialised the file.
    if (fresh || *static_cast<const uint32_t *>(memory) == 0)
        init(memory);
    flock(file.get(), LOCK_UN); // explicit, because the mapping keeps the description and so the lock
    return memory;
}

std::optional<FileId> file_id(int fd) {
    // statx, not fstat: TSan intercepts fstat and reports a race with a program that closes the descriptor.
    struct statx info {};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &info) != 0)
        return {};
    return FileId{makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino};
}

namespace {

struct flock lock_range(short type, uint64_t position, uint64_t length) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(position);
    lock.l_len = static_cast<off_t>(length);
    return lock;
}

bool is_locked(int fd, struct flock lock) { return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK; }

} // namespace

bool lock_exclusive(int fd) {
    struct flock lock = lock_range(F_WRLCK, 0, 0);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool lock_byte(int fd, uint64_t position) {
    struct flock lock = lock_range(F_RDLCK, position, 1);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool is_byte_locked(int fd, uint64_t position) { return is_locked(fd, lock_range(F_WRLCK, position, 1)); }

bool is_any_byte_locked(int fd) { return is_locked(fd, lock_range(F_WRLCK, 0, 0)); }

File reopen(int fd) { return File(open(gaudi::os::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_CLOEXEC)); }

} // namespace softgaudi
