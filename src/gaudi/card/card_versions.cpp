// SPDX-License-Identifier: BSD-3-Clause
#include "card_versions.h"

#include "os/format.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace gaudi {
namespace {

constexpr const char *kUnknown = "unknown";

template <std::size_t kSize>
std::string text_of(const std::uint8_t (&field)[kSize]) {
    const auto *text = reinterpret_cast<const char *>(field);
    std::string value(text, ::strnlen(text, kSize));
    value.erase(value.find_last_not_of(" \n") + 1);
    return value.empty() ? kUnknown : value;
}

std::string first_line(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

/// The version of the driver in the kernel; empty where the descriptor is no node of one.
std::string kernel_driver(const thunk::Device &device, const std::string &bus_id) {
    struct stat node {};
    if (::fstat(device.fd(), &node) != 0 || !S_ISCHR(node.st_mode))
        return {};
    // A control node has no device directory under some kernels, so the card's own is asked as well.
    const std::string entry = os::format("/sys/dev/char/{}:{}", major(node.st_rdev), minor(node.st_rdev));
    for (const std::string &path :
         {entry + "/device/driver_ver", entry + "/driver_ver", "/sys/bus/pci/devices/" + bus_id + "/driver_ver",
          std::string("/sys/module/habanalabs/version")}) {
        if (std::string version = first_line(path); !version.empty())
            return version;
    }
    return {};
}

} // namespace

CardVersions read_card_versions(const thunk::Device &device, const std::string &bus_id,
                                const hlthunk_hw_ip_info &info) {
    CardVersions versions;
    versions.model =
        os::format("{} ({:04x}, revision {})", text_of(info.card_name), info.device_id, unsigned{info.revision_id});
    versions.firmware = text_of(info.cpucp_version);
    versions.driver = kernel_driver(device, bus_id);
    if (versions.driver.empty())
        versions.driver = os::format("libhl-thunk {}", device.library().version().value_or(kUnknown));
    return versions;
}

} // namespace gaudi
