// SPDX-License-Identifier: BSD-3-Clause
#include "owners.h"

namespace gaudi::thunk {
namespace {

template <class Owner>
Result<Owner> own(const Device &device, const Result<typename Owner::Number> &made) {
    return made.map([&device](typename Owner::Number number) { return Owner(device, number); });
}

Result<DeviceFd> own(const Result<Device> &opened) {
    return opened.map([](const Device &device) { return DeviceFd(device); });
}

} // namespace

Result<DeviceFd> DeviceFd::open(const Library &library, const std::string &bus_id) {
    return own(Device::open(library, bus_id));
}

std::optional<DeviceFd> DeviceFd::open_control(const Library &library, int index) {
    const std::optional<Device> opened = Device::open_control(library, index);
    return opened ? std::optional<DeviceFd>(*opened) : std::nullopt;
}

DeviceFd &DeviceFd::operator=(DeviceFd &&other) noexcept {
    if (this != &other) {
        release_or_report([this] { return close(); });
        m_device = other.detach();
    }
    return *this;
}

DeviceFd::~DeviceFd() {
    release_or_report([this] { return close(); });
}

Result<void> DeviceFd::close() {
    const Device device = detach();
    if (!device)
        return {};
    return device.close();
}

Result<Allocation> allocate(const Device &device, std::uint64_t size) {
    return own<Allocation>(device, device.alloc(size));
}

Result<Mapping> map_device(const Allocation &allocation, std::uint64_t hint) {
    return own<Mapping>(allocation.device(), allocation.device().map(allocation.get(), hint));
}

Result<Mapping> map_host(const Device &device, void *address, std::uint64_t size) {
    return own<Mapping>(device, device.host_map(address, size));
}

Result<Mapping> map_dmabuf(const Device &device, int dmabuf, std::uint64_t size) {
    return own<Mapping>(device, device.import_dmabuf(dmabuf, size));
}

Result<Notifier> create_notifier(const Device &device) { return own<Notifier>(device, device.create_notifier()); }

} // namespace gaudi::thunk
