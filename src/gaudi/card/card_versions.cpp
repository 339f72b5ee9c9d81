// SPDX-License-Identifier: BSD-3-Clause
#include "card_versions.h"

#include "os/format.h"

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

/// The version of the driver in the kernel; empty where the node is no device of one.
std::string kernel_driver(dev_t node, const std::string &bus_id) {
    if (node == 0)
        return {};
    // A control node has no device directory under some kernels, so the card's own is asked as well.
    const std::string entry = os::format("/sys/dev/char/{}:{}", major(node), minor(node));
    for (const std::string &path :
         {entry + "/device/driver_ver", entry + "/driver_ver", "/sys/bus/pci/devices/" + bus_id + "/driver_ver",
          std::string("/sys/module/habanalabs/version")}) {
        if (std::string version = first_line(path); !version.empty())
            return version;
    }
    return {};
}

} // namespace

CardVersions read_card_versions(const thunk::Library &library, dev_t control, const std::string &bus_id,
                                const hlthunk_hw_ip_info &info) {
    CardVersions versions;
    versions.model =
        os::format("{} ({:04x}, revision {})", text_of(info.card_name), info.device_id, unsigned{info.revision_id});
    versions.firmware = text_of(info.cpucp_version);
    versions.driver = kernel_driver(control, bus_id);
    if (versions.driver.empty())
        versions.driver = os::format("libhl-thunk {}", library.version().value_or(kUnknown));
    return versions;
}

} // namespace gaudi
