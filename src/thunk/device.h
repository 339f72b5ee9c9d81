// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "abi.h"
#include "error.h"
#include "handles.h"
#include "library.h"

namespace gaudi::thunk {

// A fixed underlying type, because newer drivers may know states that we do not.
enum class Status : int {
    operational = HL_DEVICE_STATUS_OPERATIONAL,
    in_reset = HL_DEVICE_STATUS_IN_RESET,
    malfunction = HL_DEVICE_STATUS_MALFUNCTION,
    needs_reset = HL_DEVICE_STATUS_NEEDS_RESET,
    in_creation = HL_DEVICE_STATUS_IN_DEVICE_CREATION,
    in_reset_after_release = HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE,
};

enum class Wait { done, busy };

// The calls on one descriptor of a card, typed, with one kind of error. A view: it owns nothing, may be copied, and
// works as well on a descriptor that someone else opened. Owners are in owners.h.
class Device {
public:
    Device() = default;
    Device(const Library &library, int fd) noexcept : m_library(&library), m_fd(fd) {}

    explicit operator bool() const noexcept { return m_library != nullptr; }
    const Library &library() const noexcept { return *m_library; }
    int fd() const noexcept { return m_fd; }

    // Opening a card is exclusive and closing it resets it; control descriptors are free but only inform.
    // DeviceFd holds what these return.
    static Result<Device> open(const Library &library, const std::string &bus_id);
    static Result<Device> open_control(const Library &library, int index);
    Result<void> close() const;

    Result<std::string> bus_id() const;
    Result<hlthunk_hw_ip_info> hw_ip() const;
    Result<Status> status() const;
    Result<hlthunk_dram_usage_info> dram_usage() const;
    Result<hlthunk_open_stats_info> open_stats() const;
    Result<hlthunk_reset_count_info> reset_count() const;

    // In the card's own page size. A hint is taken where it fits and ignored where it does not.
    Result<std::uint64_t> alloc(std::uint64_t size) const;
    Result<void> free(std::uint64_t handle) const;
    Result<std::uint64_t> map(std::uint64_t handle, std::uint64_t hint = 0) const;
    Result<std::uint64_t> host_map(void *address, std::uint64_t size) const;
    Result<void> unmap(std::uint64_t address) const;

    // `address` must be exactly what map() returned. The export starts there: the mainline driver ignores offsets.
    Result<Fd> export_dmabuf(std::uint64_t address, std::uint64_t size) const;

    // Where the card sees the first `size` bytes of somebody's dma-buf; undone by unmap(). No library has a call for it:
    // the production driver is asked directly, and others refuse.
    Result<std::uint64_t> import_dmabuf(int dmabuf, std::uint64_t size) const;

    // Returns the sequence number. Spins inside the library while the driver has no room: count what is in flight.
    Result<std::uint64_t> submit(std::span<const hl_cs_chunk> chunks, std::uint32_t flags = 0) const;

    // Busy after a timeout is no error. ETIMEDOUT: the driver gave the submission up; EIO: a reset aborted it.
    Result<Wait> wait(std::uint64_t sequence, std::chrono::microseconds timeout) const;

    // Makes what the NIC wrote into the card's memory visible to the card's engines.
    Result<void> flush_pci_writes() const;

private:
    const Library *m_library = nullptr;
    int m_fd = -1;
};

} // namespace gaudi::thunk
