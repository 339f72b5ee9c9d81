// SPDX-License-Identifier: BSD-3-Clause
// The files of the software server: per card its state, the node that is opened, SRAM, and one sparse file for each
// block of device memory. Locks belong to open file descriptions (fcntl OFD locks): duplicates share them, and the
// death of the last holder releases them, which is how a card knows whether it is in use.
#pragma once

#include "model.h"

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace softgaudi {

/// Owns a descriptor.
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

/// Maps `size` bytes of `path`, created and zeroed if missing. `init` runs once on a new file and writes the first
/// 32-bit word, not 0, last. Null on failure (errno; EPROTO for a file of another size).
void *map_shared(const std::string &path, size_t size, void (*init)(void *));

/// Identifies a file independently of the descriptor.
struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const FileId &) const = default;
};
std::optional<FileId> file_id(int fd);

/// Locks the card's node; false when another description has locked it.
bool lock_exclusive(int fd);
/// Locks byte `position` until the last duplicate of this description is closed.
bool lock_byte(int fd, uint64_t position);
/// Whether another description has locked the byte, or any byte.
bool is_byte_locked(int fd, uint64_t position);
bool is_any_byte_locked(int fd);

/// A new description of the same file, which also sees the locks that this process holds.
File reopen(int fd);

} // namespace softgaudi
