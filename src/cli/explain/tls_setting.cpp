// SPDX-License-Identifier: BSD-3-Clause
#include "tls_setting.h"

#include "cli/doctor/ucx_list.h"
#include "os/format.h"

#include <algorithm>
#include <array>

namespace gaudi::cli::explain {
namespace {

constexpr const char *kExcluded = "self,sm"; // sm: each transport by shared memory
constexpr std::array kLocal = {"self", "loopback", "sm", "shm", "mm", "posix", "sysv", "xpmem", "cma", "knem"};

constexpr std::array kMemoryCopies = {"gaudi", "cuda", "gdr_copy", "rocm", "ze_"}; // beginnings of their names

} // namespace

std::string exclude_local_transports(const std::string &value) {
    const doctor::UcxList list(value);
    if (list.excludes())
        return os::format("{},{}", value, kExcluded);
    if (list.selects({}) || list.names().empty()) // "all"
        return os::format("^{}", kExcluded);
    std::vector<std::string> kept;
    std::ranges::copy_if(list.names(), std::back_inserter(kept),
                         [](const std::string &name) { return std::ranges::find(kLocal, name) == kLocal.end(); });
    return os::join(kept, ",");
}

bool reaches_other_machines(const std::string &value) {
    const doctor::UcxList list(value);
    if (list.excludes() || list.selects({}))
        return true;
    return std::ranges::any_of(list.names(), [](const std::string &name) {
        return std::ranges::none_of(kMemoryCopies, [&](const char *prefix) { return name.starts_with(prefix); });
    });
}

} // namespace gaudi::cli::explain
