// SPDX-License-Identifier: BSD-3-Clause
// The files of the software server: per card its state, the node that is opened, SRAM, and one sparse file for each
// block of device memory. Locks belong to open file descriptions (fcntl OFD locks): a duplicate shares them and the
// death of the last holder releases them, which is how a card knows whether it is in use.
#pragma once

#include "model.h"

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace softgaudi {

/// Owner of a descriptor.
class File {
public:
    File() = default;
    explicit File(int fd) : m_fd(fd) {}
    ~File();
    File(File &&other) noexcept : m_fd(other.release()) {}
    File &operator=(File &&other) noexcept;
    File(const File &) = delete;
    File &operator=(const File &) = delete;

    int get() const { return m_fd; }
    explicit operator bool() const { return m_fd >= 0; }
    int release();

private:
    int m_fd = -1;
};

/// Maps `size` bytes of `path`, made and zeroed if new; `init` runs once, on a new one, and writes the first word last
/// (not 0). Null on failure (errno).
void *map_shared(const std::string &path, size_t size, void (*init)(void *));

/// Identity of a file whatever descriptor names it.
struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const FileId &) const = default;
};
std::optional<FileId> file_id(int fd);

/// Takes the card's node for itself; false when another description has it.
bool lock_exclusive(int fd);
/// Marks byte `position` as used by this description until its last duplicate is closed.
bool lock_byte(int fd, uint64_t position);
/// Whether another description holds a lock on the byte, or on any byte.
bool byte_locked(int fd, uint64_t position);
bool any_locked(int fd);

/// Descriptor on the same file with a description of its own, so that probing sees this process's locks too.
File reopen(int fd);

} // namespace softgaudi
