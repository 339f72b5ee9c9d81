// SPDX-License-Identifier: BSD-3-Clause
// The host program's memory as the driver sees it: pinning checks, and access that cannot crash the program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softgaudi {

/// Whether the driver could pin the pages for writing: mapped, writable, and not a shared file on a disk.
bool can_pin(uint64_t address, uint64_t size);

/// Whether the machine has memory for the pages of the range that the program has not touched yet.
bool is_room_for_pages(uint64_t address, uint64_t size);

/// Whether the range is mapped in this process now and its two ends can be accessed. Cheap: it walks areas, not pages.
bool is_mapped_here(uint64_t address, size_t size, bool write);

/// memcpy as a device does it: invisible to sanitizers, and past the caches when it is long.
void device_copy(void *to, const void *from, size_t size);

/// Whole transfers between a file and memory that may be unmapped; invisible to sanitizers.
bool read_file(int fd, void *out, size_t size, uint64_t offset);
bool write_file(int fd, const void *data, size_t size, uint64_t offset);

/// Copies between this library and the memory of process `pid`; false when that memory is not mapped.
bool read_process_memory(int32_t pid, uint64_t address, void *out, size_t size);
bool write_process_memory(int32_t pid, uint64_t address, const void *data, size_t size);

/// Whether the process has memory: one that was killed has none, even before its parent waits for it.
bool is_process_alive(int32_t pid);

/// Stores 4 or 8 bytes atomically for a program that polls them.
bool store_process_memory(int32_t pid, uint64_t address, uint64_t value, size_t size);

} // namespace softgaudi
