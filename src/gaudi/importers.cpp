// SPDX-License-Identifier: BSD-3-Clause
#include "importers.h"

#include <fmt/format.h>
#include <unistd.h>

namespace gaudi {
namespace {

bool exists(const char *path) { return access(path, F_OK) == 0; }

// Paths that come with the drivers, whether or not a driver found a device and whatever of /dev a container shows.
constexpr const char *kDrivers[] = {
    "/sys/class/infiniband", // ib_core, which every RDMA driver needs
    "/dev/infiniband",       // its nodes, where sysfs is not mounted
    "/sys/module/nvidia",    // makes no render node by itself
};

/// GPUs. A machine's management controller has a display too, but no render node.
bool has_render_node() {
    constexpr unsigned kFirst = 128, kEnd = 192; // the minor numbers that the kernel keeps for them
    for (unsigned minor = kFirst; minor < kEnd; ++minor)
        if (exists(fmt::format("/sys/class/drm/renderD{}", minor).c_str()))
            return true;
    return false;
}

} // namespace

bool importer_may_exist() {
    if (!exists("/sys/class") || !exists("/sys/module")) // hidden from this process: that proves nothing
        return true;
    for (const char *driver : kDrivers)
        if (exists(driver))
            return true;
    return has_render_node();
}

} // namespace gaudi
