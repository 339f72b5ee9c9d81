// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "device.h"
#include "report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gaudi::thunk {

/// Owns the descriptor of a card, or of its control node. It is the last to be released: the other owners need it.
class DeviceFd {
public:
    static Result<DeviceFd> open(const Library &library, const std::string &bus_id);
    static std::optional<DeviceFd> open_control(const Library &library, int index);

    DeviceFd() = default;
    explicit DeviceFd(Device device) noexcept : m_device(device) {}
    DeviceFd(DeviceFd &&other) noexcept : m_device(other.detach()) {}
    DeviceFd &operator=(DeviceFd &&other) noexcept;
    ~DeviceFd();

    explicit operator bool() const noexcept { return static_cast<bool>(m_device); }
    const Device &get() const noexcept { return m_device; }
    const Device *operator->() const noexcept { return &m_device; }

    /// Gives the descriptor up without closing it.
    Device detach() noexcept { return std::exchange(m_device, Device()); }

    /// As with Fd, the owner is empty afterwards either way.
    Result<void> close();

private:
    Device m_device;
};

/// Owns a resource of a card that has a number and a call that releases it. `Kind` names that call.
template <class Kind>
class Owned {
public:
    using Number = typename Kind::Number;

    Owned() = default;
    Owned(Device device, Number number) noexcept : m_device(device), m_number(number) {}
    Owned(Owned &&other) noexcept : m_device(other.m_device), m_number(other.detach()) {}
    Owned &operator=(Owned &&other) noexcept {
        if (this != &other) {
            release_or_report([this] { return release(); });
            m_device = other.m_device;
            m_number = other.detach();
        }
        return *this;
    }
    ~Owned() {
        release_or_report([this] { return release(); });
    }

    explicit operator bool() const noexcept { return static_cast<bool>(m_device); }
    Number get() const noexcept { return m_number; }
    const Device &device() const noexcept { return m_device; }

    /// Gives the number up without releasing it.
    Number detach() noexcept {
        m_device = Device();
        return std::exchange(m_number, Number());
    }

    /// Fails while the resource is in use; the owner then still owns it, and the caller may try again.
    Result<void> release() {
        if (!m_device)
            return {};
        Result<void> released = Kind::release(m_device, m_number);
        if (released)
            detach();
        return released;
    }

private:
    Device m_device;
    Number m_number = Number();
};

struct AllocationKind {
    using Number = std::uint64_t; // the driver's handle
    static Result<void> release(const Device &device, Number handle) { return device.free(handle); }
};

struct MappingKind {
    using Number = std::uint64_t; // the address in the card's address space
    static Result<void> release(const Device &device, Number address) { return device.unmap(address); }
};

struct NotifierKind {
    using Number = int; // an eventfd
    static Result<void> release(const Device &device, Number eventfd) { return device.release_notifier(eventfd); }
};

using Allocation = Owned<AllocationKind>;
using Mapping = Owned<MappingKind>;
using Notifier = Owned<NotifierKind>;

// The calls of Device that return a number, with the owner of that number as their result.

Result<Allocation> allocate(const Device &device, std::uint64_t size);
Result<Mapping> map_device(const Allocation &allocation, std::uint64_t hint = 0);
Result<Mapping> map_host(const Device &device, void *address, std::uint64_t size);
Result<Mapping> map_dmabuf(const Device &device, int dmabuf, std::uint64_t size);
Result<Notifier> create_notifier(const Device &device);

} // namespace gaudi::thunk
