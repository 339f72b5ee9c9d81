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

// Of the stand-in alone: a call from inside synDeviceRelease, with its lock held, before it gives the pool back and closes
// the card, as a hook of those calls is one; and how many threads wait for that lock.
namespace standin {

using standin_at_close = void(void (*call)(void *user), void *user);
using standin_waiting = unsigned();

} // namespace standin
