// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_GAUDI_THUNK_OWNERS_H
#define UCX_GAUDI_THUNK_OWNERS_H

#include <cstdint>
#include <string>
#include <utility>

#include "device.h"
#include "handles.h"
#include "report.h"

namespace gaudi::thunk {

// Owns the descriptor of a card, or of its control node. Everything else below must be released before it.
class DeviceFd {
public:
    static Result<DeviceFd> open(const Library &library, const std::string &bus_id);
    static Result<DeviceFd> open_any(const Library &library, hlthunk_device_name name = HLTHUNK_DEVICE_DONT_CARE);
    static Result<DeviceFd> open_control(const Library &library, int index);

    DeviceFd() = default;
    explicit DeviceFd(Device device) noexcept : device_(device) {}
    DeviceFd(DeviceFd &&other) noexcept : device_(other.detach()) {}
    DeviceFd &operator=(DeviceFd &&other) noexcept;
    ~DeviceFd();

    explicit operator bool() const noexcept { return static_cast<bool>(device_); }
    const Device &get() const noexcept { return device_; }
    const Device *operator->() const noexcept { return &device_; }

    // Gives the descriptor up without closing it.
    Device detach() noexcept { return std::exchange(device_, Device()); }

    // As with Fd, the owner is empty afterwards either way.
    Result<void> close();

private:
    Device device_;
};

// Owns a thing of a card that has a number and a call that gives it back. `Kind` names that call.
template <class Kind>
class Owned {
public:
    using Number = typename Kind::Number;

    Owned() = default;
    Owned(Device device, Number number) noexcept : device_(device), number_(number) {}
    Owned(Owned &&other) noexcept : device_(other.device_), number_(other.detach()) {}
    Owned &operator=(Owned &&other) noexcept {
        if (this != &other) {
            release_or_report([this] { return release(); });
            device_ = other.device_;
            number_ = other.detach();
        }
        return *this;
    }
    ~Owned() {
        release_or_report([this] { return release(); });
    }

    explicit operator bool() const noexcept { return static_cast<bool>(device_); }
    Number get() const noexcept { return number_; }
    const Device &device() const noexcept { return device_; }

    // Gives the number up without releasing it.
    Number detach() noexcept {
        device_ = Device();
        return std::exchange(number_, Number());
    }

    // Releasing what is still in use fails, and then the owner still owns it: try again later.
    Result<void> release() {
        if (!device_)
            return {};
        Result<void> released = Kind::release(device_, number_);
        if (released)
            detach();
        return released;
    }

private:
    Device device_;
    Number number_ = Number();
};

struct AllocationKind {
    using Number = std::uint64_t; // the driver's handle
    static Result<void> release(const Device &device, Number handle) { return device.free(handle); }
};

struct MappingKind {
    using Number = std::uint64_t; // the address in the card's address space
    static Result<void> release(const Device &device, Number address) { return device.unmap(address); }
};

struct CommandBufferKind {
    using Number = std::uint64_t; // the driver's handle
    static Result<void> release(const Device &device, Number handle) { return device.destroy_command_buffer(handle); }
};

struct NotifierKind {
    using Number = int; // an eventfd
    static Result<void> release(const Device &device, Number eventfd) { return device.release_notifier(eventfd); }
};

using Allocation = Owned<AllocationKind>;
using Mapping = Owned<MappingKind>;
using CommandBuffer = Owned<CommandBufferKind>;
using Notifier = Owned<NotifierKind>;

// The calls of Device that make something, with an owner around what they made.
Result<Allocation> allocate(const Device &device, std::uint64_t size, std::uint64_t page_size = 0,
                            bool contiguous = false);
Result<Mapping> map_device(const Allocation &allocation, std::uint64_t hint = 0);
Result<Mapping> map_host(const Device &device, void *address, std::uint64_t size, std::uint64_t hint = 0);
Result<CommandBuffer> make_command_buffer(const Device &device, std::uint32_t size);
Result<CommandBuffer> make_mapped_command_buffer(const Device &device, std::uint32_t size);
Result<Notifier> make_notifier(const Device &device);

} // namespace gaudi::thunk

#endif
