// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include "error.h"
#include "fd.h"
#include "library.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gaudi::thunk {

/// The state of a card. The underlying type is fixed, because newer drivers may report states that are not listed here.
enum class Status : int {
    operational = HL_DEVICE_STATUS_OPERATIONAL,
    in_reset = HL_DEVICE_STATUS_IN_RESET,
    malfunction = HL_DEVICE_STATUS_MALFUNCTION,
    needs_reset = HL_DEVICE_STATUS_NEEDS_RESET,
    in_creation = HL_DEVICE_STATUS_IN_DEVICE_CREATION,
    in_reset_after_release = HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE,
};

/// What a wait for a submission found.
enum class Wait { done, busy };

/// The calls on one descriptor of a card, typed, with one kind of error. A view: it owns nothing, may be copied, and
/// works as well on a descriptor that a framework opened. The owners are in owners.h.
class Device {
public:
    Device() = default;
    Device(const Library &library, int fd) noexcept : m_library(&library), m_fd(fd) {}

    explicit operator bool() const noexcept { return m_library != nullptr; }
    const Library &library() const noexcept { return *m_library; }
    int fd() const noexcept { return m_fd; }

    /// Opens the card for compute. Opening is exclusive, and closing resets the card. DeviceFd closes by itself.
    static Result<Device> open(const Library &library, const std::string &bus_id);

    /// Opens the control node of a card, which does not occupy the card and allows queries only. Nothing where it cannot be
    /// opened: callers try all indexes, and to make an error would cost more than the call.
    static std::optional<Device> open_control(const Library &library, int index);
    Result<void> close() const;

    Result<std::string> bus_id() const;
    Result<hlthunk_hw_ip_info> hw_ip() const;
    Result<Status> status() const;
    Result<hlthunk_dram_usage_info> dram_usage() const;
    Result<hlthunk_open_stats_info> open_stats() const;
    Result<hlthunk_reset_count_info> reset_count() const;

    /// An eventfd that the driver signals at each event of the card. A device context has one at most.
    Result<int> create_notifier() const;
    /// Ends the registration and closes the eventfd.
    Result<void> release_notifier(int eventfd) const;
    /// The events since the last call, bits HL_NOTIFIER_EVENT_*; 0 where there are none. One thread at a time: the library
    /// waits for a signal that another thread has taken.
    Result<std::uint64_t> take_events(int eventfd) const;

    /// Allocates card memory in pages of the card's default size; returns the driver's handle.
    Result<std::uint64_t> alloc(std::uint64_t size) const;
    Result<void> free(std::uint64_t handle) const;

    /// Maps an allocation; returns its device address. The driver follows the hint where it can, else it ignores it.
    Result<std::uint64_t> map(std::uint64_t handle, std::uint64_t hint = 0) const;

    /// Pins host memory and maps it into the card; returns its device address.
    Result<std::uint64_t> host_map(void *address, std::uint64_t size) const;
    Result<void> unmap(std::uint64_t address) const;

    /// Exports a mapping from its start: the mainline driver ignores offsets. `address` is exactly what map() returned.
    Result<Fd> export_dmabuf(std::uint64_t address, std::uint64_t size) const;

    /// Maps the first `size` bytes of a dma-buf into the card; returns their device address, which unmap() takes. No
    /// library has a function for it: this is a request to the production driver itself, which other drivers refuse.
    Result<std::uint64_t> import_dmabuf(int dmabuf, std::uint64_t size) const;

    /// Returns the sequence number. The library spins while the driver has no room: the caller must limit what is in
    /// flight.
    Result<std::uint64_t> submit(std::span<const hl_cs_chunk> chunks, std::uint32_t flags = 0) const;

    /// A timeout is Wait::busy, not an error. ETIMEDOUT: the driver gave the submission up. EIO: a reset aborted it.
    Result<Wait> wait(std::uint64_t sequence, std::chrono::microseconds timeout) const;

    /// Makes what a NIC has written into the card's memory visible to the card's engines.
    Result<void> flush_pci_writes() const;

private:
    const Library *m_library = nullptr;
    int m_fd = -1;
};

} // namespace gaudi::thunk
