// SPDX-License-Identifier: BSD-3-Clause
// What a program calls of libSynapse.so and the product does not; from synapse_api.h of the sources that
// gaudi/framework_abi.h cites.
#pragma once

#include "gaudi/framework_abi.h"

namespace gaudi::vendor {

using synInitialize = Status();
using synDestroy = Status();
using synDeviceAcquire = Status(DeviceId *device, const char *bus_id);
using synDeviceAcquireByModuleId = Status(DeviceId *device, std::uint32_t module);
using synDeviceRelease = Status(DeviceId device);
using synDeviceMalloc = Status(DeviceId device, std::uint64_t size, std::uint64_t wanted, std::uint32_t flags,
                               std::uint64_t *address);
using synDeviceFree = Status(DeviceId device, std::uint64_t address, std::uint32_t flags);

} // namespace gaudi::vendor
