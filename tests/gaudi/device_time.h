// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "thunk/device.h"

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>

namespace gaudi::test {

/// The card's clock in nanoseconds; on softgaudi that is the virtual clock. The product never reads it, so this looks the
/// function up by itself.
inline std::uint64_t device_time(const thunk::Device &device) {
    void *library = dlopen(device.library().path().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        throw std::runtime_error(device.library().path() + " is not loaded");
    const auto get =
        reinterpret_cast<decltype(&hlthunk_get_time_sync_info)>(dlsym(library, "hlthunk_get_time_sync_info"));
    hlthunk_time_sync_info info{};
    const int failed = get ? get(device.fd(), &info) : -1;
    dlclose(library);
    if (failed)
        throw std::runtime_error("hlthunk_get_time_sync_info failed");
    return info.device_time;
}

} // namespace gaudi::test
