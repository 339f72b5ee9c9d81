// SPDX-License-Identifier: BSD-3-Clause
// The part of SynapseAI's C interface that this library calls, declared by hand: nothing of it is linked, and a machine
// without SynapseAI builds this. Only facts are taken over, each from a public header or source:
//
//   [core] github.com/HabanaAI/SynapseAI_Core, commit 266a395 (MIT), external_includes/: synapse_api.h,
//          synapse_api_types.h, synapse_common_types.h. Of 2021; it has none of the V2 calls and no generic streams.
//   [hcl]  github.com/HabanaAI/HCL, commit 195c075, dependencies/synapse/include/: the same three headers as of today's
//          SynapseAI, and dependencies/scal/scal.h.
//   [ucx]  github.com/openucx/ucx, commit 9b3a09e, src/uct/gaudi/base/: scal.h declares, gaudi_base.c calls.
//   [fab]  github.com/ofiwg/libfabric, commit e3bc443, fabtests/common/hmem_synapseai.c: calls both, found by name.
//
// Both libraries are C, so that a name is all it takes to find a function.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gaudi::vendor {

// ---- libSynapse.so ------------------------------------------------------------------------------------------------

/// enum synStatus: [core] up to 25, [hcl] all. Those with a meaning here.
enum Status : std::uint32_t {
    synSuccess = 0,
    synInvalidArgument = 1,
    synOutOfHostMemory = 3,
    synOutOfDeviceMemory = 4,
    synNoDeviceFound = 8,
    synDeviceReset = 17,
    synUnsupported = 18,
    synDeviceAlreadyAcquired = 20,
    synBusy = 22, // of an event: it has not been reached
    synAllResourcesTaken = 23,
    synUnavailable = 24,
    synFail = 26,
    synOutOfResources = 27,
    synUninitialized = 28,
    synSynapseTerminated = 31,
    synInvalidEventHandle = 33,
    synMappingNotFound = 34,
    synTimeout = 42,
};

/// enum synDmaDir: [core] [hcl].
enum CopyDirection : std::uint32_t { HOST_TO_DRAM = 0, DRAM_TO_HOST = 1, DRAM_TO_DRAM = 2 };

using DeviceId = std::uint32_t; // [core] [hcl]
using StreamHandle = void *;    // a pointer to something opaque: [core] [hcl]
using EventHandle = void *;     // the same

/// struct synDeviceInfo of [hcl]. That of [core] has a narrower mask, which moves the descriptor to offset 40, and ends
/// where this one has its descriptor.
struct DeviceInfo {
    std::uint64_t sram_base;
    std::uint64_t dram_base;
    std::uint32_t sram_size;
    std::uint64_t dram_size;
    std::uint64_t tpc_mask;
    std::uint8_t dram_enabled;
    std::uint32_t device_id;
    std::uint32_t fd;
    std::uint32_t device_type;
};
static_assert(sizeof(DeviceInfo) == 56 && offsetof(DeviceInfo, dram_size) == 24 &&
              offsetof(DeviceInfo, tpc_mask) == 32 && offsetof(DeviceInfo, device_id) == 44 &&
              offsetof(DeviceInfo, fd) == 48);

/// struct synDeviceInfoV2: [hcl] only.
struct DeviceInfoV2 {
    std::uint64_t sram_base;
    std::uint64_t dram_base;
    std::uint32_t sram_size;
    std::uint64_t dram_size;
    std::uint64_t tpc_mask;
    std::uint8_t dram_enabled;
    std::uint32_t device_id;
    std::uint32_t fd;
    std::uint32_t device_type;
    std::uint8_t device_index;
    std::uint64_t global_hbm_base;
};
static_assert(sizeof(DeviceInfoV2) == 72 && offsetof(DeviceInfoV2, fd) == 48 &&
              offsetof(DeviceInfoV2, device_index) == 56 && offsetof(DeviceInfoV2, global_hbm_base) == 64);

// synapse_api.h of [core] and [hcl], if nothing else is said.
using synDeviceGetInfo = Status(DeviceId device, DeviceInfo *info);
using synDeviceGetInfoV2 = Status(DeviceId device, DeviceInfoV2 *info); // [hcl] [fab]
using synDeviceMalloc = Status(DeviceId device, std::uint64_t size, std::uint64_t wanted, std::uint32_t flags,
                               std::uint64_t *address); // `wanted` is an address or 0; flags are 0
using synDeviceFree = Status(DeviceId device, std::uint64_t address, std::uint32_t flags);
// Memory that is mapped already, by whomever, is mapped no second time: synSuccess, and no reference is taken. A range that
// overlaps a mapping without being equal to it is synInvalidArgument.
using synHostMap = Status(DeviceId device, std::uint64_t length, const void *address);
// Ends the mapping that starts there, whoever made it, and the memory itself where it is synHostMalloc's.
using synHostUnmap = Status(DeviceId device, const void *address);
using synStreamCreateGeneric = Status(StreamHandle *stream, DeviceId device, std::uint32_t flags); // [hcl] [fab]
using synStreamDestroy = Status(StreamHandle stream); // synBusy while it works
using synStreamSynchronize = Status(StreamHandle stream);
using synMemCopyAsync = Status(StreamHandle stream, std::uint64_t source, std::uint64_t length,
                               std::uint64_t destination, CopyDirection direction);
using synEventCreate = Status(EventHandle *event, DeviceId device, std::uint32_t flags);
using synEventRecord = Status(EventHandle event, StreamHandle stream); // may be repeated: the last one counts
using synEventQuery = Status(EventHandle event);
using synEventDestroy = Status(EventHandle event);

// ---- libscal.so, below it -----------------------------------------------------------------------------------------

using ScalHandle = void *; // a pointer to something opaque, as is the next: [hcl] [ucx]
using PoolHandle = void *;

inline constexpr int SCAL_SUCCESS = 0; // [hcl]; errors are negative

/// struct scal_memory_pool_infoV2: [hcl] [ucx]. The one without V2 ends before `mapping`, so it does not do here.
struct PoolInfo {
    ScalHandle scal;
    const char *name;
    std::uint32_t index;
    std::uint64_t base; // device_base_address
    void *host_base;
    std::uint32_t core_base;
    std::uint64_t total;   // totalSize
    std::uint64_t free;    // freeSize
    std::uint64_t mapping; // device_base_allocated_address
};
static_assert(sizeof(PoolInfo) == 72 && offsetof(PoolInfo, base) == 24 && offsetof(PoolInfo, total) == 48 &&
              offsetof(PoolInfo, mapping) == 64);

// scal.h of [hcl] and [ucx].
using scal_get_handle_from_fd = int(int fd, ScalHandle *scal);
using scal_get_pool_handle_by_name = int(ScalHandle scal, const char *name, PoolHandle *pool);
using scal_pool_get_infoV2 = int(PoolHandle pool, PoolInfo *info);

/// The pool that SynapseAI serves its users from: [ucx] gaudi_base.c, [fab].
inline constexpr const char *kUserPool = "global_hbm";

} // namespace gaudi::vendor
