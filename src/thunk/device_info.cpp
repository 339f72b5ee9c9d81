// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "device.h"

namespace gaudi::thunk {

Result<Device> Device::open(const Library &library, const std::string &bus_id) {
    const int fd = invoke(library.call().open, HLTHUNK_DEVICE_DONT_CARE, bus_id.c_str());
    if (fd < 0)
        return tl::unexpected(from_negative(fd, "hlthunk_open", bus_id));
    return Device(library, fd);
}

std::optional<Device> Device::open_control(const Library &library, int index) {
    const int fd = invoke(library.call().open_control, index, nullptr);
    if (fd < 0)
        return std::nullopt;
    return Device(library, fd);
}

Result<void> Device::close() const {
    const int rc = invoke(m_library->call().close, m_fd);
    if (rc != 0)
        return tl::unexpected(from_mixed(rc, errno, "hlthunk_close", std::to_string(m_fd)));
    return {};
}

Result<std::string> Device::bus_id() const {
    char text[32] = {};
    const int rc = invoke(m_library->call().get_pci_bus_id_from_fd, m_fd, text, static_cast<int>(sizeof(text) - 1));
    if (rc < 0)
        return tl::unexpected(from_mixed(rc, errno, "hlthunk_get_pci_bus_id_from_fd", std::to_string(m_fd)));
    return std::string(text);
}

Result<hlthunk_hw_ip_info> Device::hw_ip() const {
    return fetch(m_library->call().get_hw_ip_info, m_fd, "hlthunk_get_hw_ip_info");
}

Result<Status> Device::status() const {
    const int rc = invoke(m_library->call().get_device_status_info, m_fd);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, "hlthunk_get_device_status_info"));
    return static_cast<Status>(rc);
}

Result<hlthunk_dram_usage_info> Device::dram_usage() const {
    return fetch(m_library->call().get_dram_usage, m_fd, "hlthunk_get_dram_usage");
}

Result<hlthunk_open_stats_info> Device::open_stats() const {
    return fetch(m_library->call().get_open_stats, m_fd, "hlthunk_get_open_stats");
}

Result<hlthunk_reset_count_info> Device::reset_count() const {
    return fetch(m_library->call().get_reset_count_info, m_fd, "hlthunk_get_reset_count_info");
}

Result<int> Device::create_notifier() const {
    constexpr const char *kName = "hlthunk_notifier_create";
    if (!m_library->has_notifier())
        return tl::unexpected(m_library->lacks(kName));
    const int made = invoke(m_library->call().notifier_create, m_fd);
    if (made < 0)
        return tl::unexpected(from_negative(made, kName));
    return made;
}

Result<void> Device::release_notifier(int eventfd) const {
    const int rc = invoke(m_library->call().notifier_release, m_fd, eventfd);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, "hlthunk_notifier_release"));
    return {};
}

Result<std::uint64_t> Device::take_events(int eventfd) const {
    std::uint64_t events = 0, count = 0;
    const int rc = invoke(m_library->call().notifier_recv, m_fd, eventfd, &events, &count, 0u, 0u);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, "hlthunk_notifier_recv"));
    return events;
}

} // namespace gaudi::thunk
