// SPDX-License-Identifier: BSD-3-Clause
// The host program's memory, as the driver would see it: what can be pinned, and access that cannot crash the program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softgaudi {

/// Whether the driver could pin the pages for writing: mapped, writable, and not a shared file on a disk.
bool can_pin(uint64_t address, uint64_t size);

/// Whether the range is mapped in this process, right now, and its ends can be accessed so. Cheap: it walks areas, not
/// pages.
bool mapped_here(uint64_t address, size_t size, bool write);

/// memcpy as a device does it: unseen by sanitizers, and past the caches when it is long.
void device_copy(void *to, const void *from, size_t size);

/// Whole transfers between a file and memory that may turn out not to be there; unseen by sanitizers as well.
bool read_file(int fd, void *out, size_t size, uint64_t offset);
bool write_file(int fd, const void *data, size_t size, uint64_t offset);

/// Copies between this library and memory of process `pid`; false when the memory is not there (any more).
bool read_host(int32_t pid, uint64_t address, void *out, size_t size);
bool write_host(int32_t pid, uint64_t address, const void *data, size_t size);

/// Stores a word of 4 or 8 bytes so that a program polling it sees the old or the new value, nothing between.
bool store_host(int32_t pid, uint64_t address, uint64_t value, size_t size);

} // namespace softgaudi
