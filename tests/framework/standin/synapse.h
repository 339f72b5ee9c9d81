// SPDX-License-Identifier: BSD-3-Clause
// Functions of libSynapse.so that programs call and the product does not, as in synapse_api.h of the sources that
// gaudi/framework/synapse_abi.h cites.
#pragma once

#include "gaudi/framework/synapse_abi.h"

namespace gaudi::vendor {

using synInitialize = Status();
using synDestroy = Status();
using synDeviceAcquire = Status(DeviceId *device, const char *bus_id);
using synDeviceAcquireByModuleId = Status(DeviceId *device, std::uint32_t module);
using synDeviceRelease = Status(DeviceId device);
using synHostMalloc = Status(DeviceId device, std::uint64_t size, std::uint32_t flags, void **address);
using synHostFree = Status(DeviceId device, const void *address, std::uint32_t flags);

} // namespace gaudi::vendor

// Functions that only the stand-in has. standin_at_close sets a function that synDeviceRelease calls with its lock held,
// before it frees the pool and closes the card, as a hook of hlthunk_close would be; standin_waiting returns how many
// threads wait for that lock; standin_in_call sets a function that synEventQuery calls without the lock, so that a test
// can hold a thread inside a call; standin_host_mappings returns how many ranges of host memory are mapped.
namespace standin {

using standin_at_close = void(void (*call)(void *user), void *user);
using standin_waiting = unsigned();
using standin_in_call = void(void (*call)(void *user), void *user);
using standin_host_mappings = std::size_t();

} // namespace standin
